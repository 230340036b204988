//! The verbs about claims, each inside a transaction.

use lockhouse_core::{Claim, ClaimId, Error, Kind, Name, Patience, PublicId, Renewal, Standing, Withdrawal};
use rusqlite::params;

use crate::error::Fault;
use crate::line::{HOLDS, OUT, Stored, Tx, WAITS, agree, insert, lease_end, sql};

impl Tx<'_> {
    /// Puts the claim in line or says where it stands.
    pub(crate) fn claim(&mut self, claim: &Claim) -> Result<Standing, Fault> {
        // Nobody there: one look, one row, one page.
        if !self.anything(&claim.name)? {
            return self.let_in(claim);
        }
        match self.find(&claim.name, &claim.id)? {
            Some(stored) if stored.lease_end > self.now => self.again(claim, &stored),
            Some(_) => {
                // It is out of the line, and whoever is behind it comes first.
                self.remove(&claim.name, &claim.id)?;
                self.join(claim)
            }
            None => self.join(claim),
        }
    }

    fn join(&mut self, claim: &Claim) -> Result<Standing, Fault> {
        if self.fits(claim)? {
            return self.let_in(claim);
        }
        if claim.patience == Patience::None {
            return Ok(Standing::Refused);
        }
        let arrived = self.number(&claim.name, claim.floor)?;
        insert(self, claim, WAITS, arrived, None)?;
        self.queued(&claim.name, claim.priority, arrived)
    }

    fn let_in(&mut self, claim: &Claim) -> Result<Standing, Fault> {
        let token = self.number(&claim.name, claim.floor)?;
        insert(self, claim, HOLDS, 0, Some(token))?;
        Ok(Standing::Granted { token: token.cast_unsigned() })
    }

    fn queued(&self, name: &Name, priority: i32, arrived: i64) -> Result<Standing, Fault> {
        let mut ahead = self.connection.prepare_cached(sql!("ahead"))?;
        let ahead: i64 = ahead.query_row(params![name.as_str(), priority, arrived], |row| row.get(0))?;
        Ok(Standing::Queued { ahead: u32::try_from(ahead).unwrap_or(u32::MAX) })
    }

    /// The claim is there already.
    fn again(&mut self, claim: &Claim, stored: &Stored) -> Result<Standing, Fault> {
        if stored.state == OUT {
            return Ok(Standing::Refused);
        }
        agree(claim, stored.capacity)?;
        if claim.weight > stored.weight {
            let what = format!("the claim weighs {}, and cannot be raised to {}", stored.weight, claim.weight);
            return Err(Error::new(Kind::Invalid, what).help("there is no upgrade: release, then lock anew").into());
        }
        // A claim that lingers is left as it is, and one that an operator ended is renewed no more.
        if stored.client.is_some() && !stored.evicted {
            let (state, end) = (stored.state, lease_end(self.now, claim));
            let client = (!claim.lingers).then_some(self.client.id);
            let mut again = self.connection.prepare_cached(sql!("again"))?;
            again.execute(params![claim.name.as_str(), state, claim.id.as_bytes(), claim.weight, end, client])?;
        }
        match (stored.state, stored.token) {
            (HOLDS, Some(token)) => {
                if claim.weight < stored.weight {
                    self.settle(&claim.name)?;
                }
                Ok(Standing::Granted { token: self.raise(claim, token)? })
            }
            _ => self.wait_on(claim, stored),
        }
    }

    /// The token written back by a quorum: not smaller than the claim's floor.
    fn raise(&mut self, claim: &Claim, token: u64) -> Result<u64, Fault> {
        if token >= claim.floor {
            return Ok(token);
        }
        self.keep_above(&claim.name, claim.floor)?;
        let mut raise = self.connection.prepare_cached(sql!("raise"))?;
        raise.execute(params![claim.name.as_str(), claim.id.as_bytes(), claim.floor.cast_signed()])?;
        Ok(claim.floor)
    }

    fn wait_on(&mut self, claim: &Claim, stored: &Stored) -> Result<Standing, Fault> {
        self.keep_above(&claim.name, claim.floor)?;
        self.settle(&claim.name)?;
        let granted = |tx: &Self| -> Result<_, Fault> {
            Ok(tx
                .find(&claim.name, &claim.id)?
                .and_then(|stored| stored.token)
                .map(|token| Standing::Granted { token }))
        };
        if let Some(standing) = granted(self)? {
            return Ok(standing);
        }
        // Somebody is in the way: make sure that they live.
        if self.bury(&claim.name)? {
            self.settle(&claim.name)?;
            if let Some(standing) = granted(self)? {
                return Ok(standing);
            }
        }
        self.queued(&claim.name, stored.priority, stored.arrived)
    }

    /// Releases the claim or leaves the line.
    pub(crate) fn withdraw(&mut self, claim: &Claim) -> Result<Withdrawal, Fault> {
        let key = params![claim.name.as_str(), claim.id.as_bytes(), self.now];
        let there = self.connection.prepare_cached(sql!("release"))?.execute(key)? > 0
            || self.connection.prepare_cached(sql!("leave"))?.execute(key)? > 0;
        // Its lease is over: the row goes, but it was out of the line already.
        if there || self.remove(&claim.name, &claim.id)? {
            self.settle(&claim.name)?;
        }
        Ok(if there { Withdrawal::Withdrawn } else { Withdrawal::NotThere })
    }

    /// Renews one lease.
    pub(crate) fn renew(&mut self, claim: &Claim) -> Result<Renewal, Fault> {
        let (name, id, end) = (claim.name.as_str(), claim.id.as_bytes(), lease_end(self.now, claim));
        let renewed = if claim.lingers {
            self.connection.prepare_cached(sql!("linger"))?.execute(params![name, id, self.now, end])?
        } else {
            let key = params![name, id, self.now, end, self.client.id];
            self.connection.prepare_cached(sql!("renew"))?.execute(key)?
        };
        if renewed > 0 {
            return Ok(Renewal::Renewed);
        }
        // A renewal that was under way when the claim began to linger changes nothing, and is not told that it is gone.
        let lingers = self.find(&claim.name, &claim.id)?.is_some_and(|stored| {
            stored.client.is_none() && stored.lease_end > self.now && !stored.evicted && stored.state != OUT
        });
        Ok(if lingers { Renewal::Renewed } else { Renewal::Gone })
    }

    /// An operator ends a claim.
    pub(crate) fn evict(&mut self, name: &Name, public: &PublicId) -> Result<bool, Fault> {
        let (first, last) = ids(public);
        let found = {
            let mut found = self.connection.prepare_cached(sql!("public"))?;
            let key = params![name.as_str(), first.as_bytes(), last.as_bytes(), self.now];
            let rows = found.query_map(key, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<Result<Vec<([u8; 16], i64, Option<i64>)>, _>>()?
        };
        for (id, state, client) in &found {
            if *state == HOLDS {
                self.connection.prepare_cached(sql!("evict_holder"))?.execute(params![name.as_str(), id])?;
            } else {
                self.connection.prepare_cached(sql!("evict_waiter"))?.execute(params![name.as_str(), id])?;
                self.moves.add(*client, name, ClaimId::from_bytes(*id), None);
            }
        }
        self.settle(name)?;
        Ok(!found.is_empty())
    }

    /// Sweeps everything under a name that is over, and lets in who is next.
    pub(crate) fn tidy(&mut self, name: &Name, dead: Option<i64>) -> Result<(), Fault> {
        self.connection.prepare_cached(sql!("expire_holders"))?.execute(params![name.as_str(), self.now])?;
        self.connection.prepare_cached(sql!("expire_waiters"))?.execute(params![name.as_str(), self.now])?;
        if let Some(dead) = dead {
            self.connection.prepare_cached(sql!("bury"))?.execute(params![name.as_str(), dead])?;
        }
        self.bury(name)?;
        self.settle(name)
    }
}

/// The first and the last id that people call by this one.
fn ids(public: &PublicId) -> (ClaimId, ClaimId) {
    let digits = u64::from_str_radix(&public.to_string(), 16).unwrap_or(0);
    let filled = |with: u8| {
        let mut id = [with; 16];
        id[..6].copy_from_slice(&digits.to_be_bytes()[2..]);
        ClaimId::from_bytes(id)
    };
    (filled(0), filled(0xff))
}

/// What no engine can make sense of.
pub(crate) fn check(claim: &Claim) -> Result<(), Error> {
    let invalid = |what: String, help: &str| Err(Error::new(Kind::Invalid, what).help(help));
    if claim.weight == 0 || claim.weight > claim.capacity {
        let what = format!("a weight of {} never fits into a capacity of {}", claim.weight, claim.capacity);
        return invalid(what, "ask for at least one permit, and for no more than there are");
    }
    if claim.ttl < crate::MIN_TTL {
        let what = format!("a lease of {:?} is too short", claim.ttl);
        return invalid(what, "one millisecond is the least, and some seconds are usual");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_id_covers_exactly_its_claims() {
        let id = ClaimId::random();
        let (first, last) = ids(&id.public());
        assert!(first <= id && id <= last);
        assert_eq!(first.public(), id.public());
        assert_eq!(last.public(), id.public());
    }
}
