//! What goes over the wire: one JSON object a line.

use std::time::Duration;

use lockhouse_core::{
    Cell, Claim, ClaimId, Error, Kind, Line, Name, Owner, Patience, Place, PublicId, Renewal, Result, Standing,
    Withdrawal, Write, Written,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Claim(ClaimWords),
    Moved(ClaimWords),
    Renew(Vec<ClaimWords>),
    Withdraw(ClaimWords),
    Survey(String),
    Evict(String, String),
    Read(String),
    Write { name: String, id: [u8; 16], value: Vec<u8>, if_version: Option<u64>, token: Option<u64> },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Standing(Option<StandingWords>),
    Renewals(Vec<bool>),
    Withdrawn(bool),
    Lines(Vec<LineWords>),
    Evicted(bool),
    Cell { version: u64, token: u64, value: Vec<u8> },
    Written(WrittenWords),
    Failed { conflict: bool, what: String },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum StandingWords {
    Granted(u64),
    Queued(u32),
    Refused,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WrittenWords {
    Yes(u64),
    Changed(u64),
    Stale(u64),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ClaimWords {
    id: [u8; 16],
    name: String,
    owner: String,
    weight: u32,
    capacity: u32,
    priority: i32,
    /// 0 none, 1 waits, 2 barges.
    patience: u8,
    ttl: Duration,
    note: Option<String>,
    floor: u64,
    lingers: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LineWords {
    name: String,
    capacity: u32,
    places: Vec<PlaceWords>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PlaceWords {
    id: String,
    owner: String,
    weight: u32,
    priority: i32,
    token: Option<u64>,
    since: Duration,
    lease_left: Duration,
    note: Option<String>,
    evicted: bool,
}

impl From<&Claim> for ClaimWords {
    fn from(claim: &Claim) -> Self {
        Self {
            id: *claim.id.as_bytes(),
            name: claim.name.to_string(),
            owner: claim.owner.label().to_owned(),
            weight: claim.weight,
            capacity: claim.capacity,
            priority: claim.priority,
            patience: match claim.patience {
                Patience::None => 0,
                Patience::Waits => 1,
                Patience::Barges => 2,
            },
            ttl: claim.ttl,
            note: claim.note.as_deref().map(str::to_owned),
            floor: claim.floor,
            lingers: claim.lingers,
        }
    }
}

impl From<ClaimWords> for Claim {
    fn from(words: ClaimWords) -> Self {
        Self {
            id: ClaimId::from_bytes(words.id),
            name: name(&words.name),
            owner: Owner::new(words.owner),
            weight: words.weight,
            capacity: words.capacity,
            priority: words.priority,
            patience: [Patience::None, Patience::Waits, Patience::Barges][usize::from(words.patience)],
            ttl: words.ttl,
            note: words.note.map(Into::into),
            floor: words.floor,
            lingers: words.lingers,
        }
    }
}

impl From<Standing> for StandingWords {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Granted { token } => Self::Granted(token),
            Standing::Queued { ahead } => Self::Queued(ahead),
            Standing::Refused => Self::Refused,
        }
    }
}

impl From<StandingWords> for Standing {
    fn from(words: StandingWords) -> Self {
        match words {
            StandingWords::Granted(token) => Self::Granted { token },
            StandingWords::Queued(ahead) => Self::Queued { ahead },
            StandingWords::Refused => Self::Refused,
        }
    }
}

impl From<Line> for LineWords {
    fn from(line: Line) -> Self {
        let places = line.places.into_iter().map(|place| PlaceWords {
            id: place.id.to_string(),
            owner: place.owner,
            weight: place.weight,
            priority: place.priority,
            token: place.token,
            since: place.since,
            lease_left: place.lease_left,
            note: place.note,
            evicted: place.evicted,
        });
        Self { name: line.name.to_string(), capacity: line.capacity, places: places.collect() }
    }
}

impl From<LineWords> for Line {
    fn from(words: LineWords) -> Self {
        let places = words.places.into_iter().map(|place| Place {
            id: public(&place.id),
            owner: place.owner,
            weight: place.weight,
            priority: place.priority,
            token: place.token,
            since: place.since,
            lease_left: place.lease_left,
            note: place.note,
            evicted: place.evicted,
        });
        Self { name: name(&words.name), capacity: words.capacity, places: places.collect() }
    }
}

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).expect("names are checked before they are sent")
}

pub(crate) fn public(id: &str) -> PublicId {
    id.parse().expect("ids are made by the other side")
}

pub(crate) fn write(id: [u8; 16], value: Vec<u8>, if_version: Option<u64>, token: Option<u64>) -> Write {
    Write { id, value, if_version, token }
}

/// What the engine said, as an answer.
pub(crate) trait IntoAnswer {
    fn into_answer(self) -> Answer;
}

impl IntoAnswer for Standing {
    fn into_answer(self) -> Answer {
        Answer::Standing(Some(self.into()))
    }
}

impl IntoAnswer for Option<Standing> {
    fn into_answer(self) -> Answer {
        Answer::Standing(self.map(Into::into))
    }
}

impl IntoAnswer for Vec<Renewal> {
    fn into_answer(self) -> Answer {
        Answer::Renewals(self.into_iter().map(|renewal| renewal == Renewal::Renewed).collect())
    }
}

impl IntoAnswer for Withdrawal {
    fn into_answer(self) -> Answer {
        Answer::Withdrawn(self == Withdrawal::Withdrawn)
    }
}

impl IntoAnswer for Vec<Line> {
    fn into_answer(self) -> Answer {
        Answer::Lines(self.into_iter().map(Into::into).collect())
    }
}

impl IntoAnswer for bool {
    fn into_answer(self) -> Answer {
        Answer::Evicted(self)
    }
}

impl IntoAnswer for Cell {
    fn into_answer(self) -> Answer {
        Answer::Cell { version: self.version, token: self.token, value: self.value }
    }
}

impl IntoAnswer for Written {
    fn into_answer(self) -> Answer {
        Answer::Written(match self {
            Self::Yes { version } => WrittenWords::Yes(version),
            Self::Changed { version } => WrittenWords::Changed(version),
            Self::Stale { newest } => WrittenWords::Stale(newest),
        })
    }
}

impl<T: IntoAnswer> IntoAnswer for Result<T> {
    fn into_answer(self) -> Answer {
        match self {
            Ok(answer) => answer.into_answer(),
            Err(error) => Answer::Failed { conflict: error.kind() == Kind::Conflict, what: error.to_string() },
        }
    }
}

/// An error that the server's engine had.
pub(crate) fn failure(conflict: bool, what: String) -> Error {
    Error::new(if conflict { Kind::Conflict } else { Kind::Engine }, what)
}
