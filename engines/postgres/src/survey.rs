//! Every line under a prefix, for people.

use std::time::Duration;

use lockhouse_core::{Line, Name, Place, PublicId};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::Fault;
use crate::server::{PATIENCE, Server, get};

impl Server {
    pub(crate) async fn survey(&self, begins: &str) -> Result<Vec<Line>, Fault> {
        let rows = self.pool.ask(&self.statements.survey, &[(&begins, Type::TEXT)], PATIENCE).await?;
        let mut lines: Vec<Line> = Vec::new();
        for row in &rows {
            let (name, place) = (get::<&str>(row, 0)?, place(row)?);
            match lines.last_mut() {
                Some(line) if line.name.as_str() == name => line.places.push(place),
                _ => {
                    let capacity = u32::try_from(get::<i64>(row, 4)?).unwrap_or(u32::MAX);
                    lines.push(Line { name: Name::new(name)?, capacity, places: vec![place] });
                }
            }
        }
        Ok(lines)
    }
}

fn place(row: &Row) -> Result<Place, Fault> {
    let micros = |column| get::<i64>(row, column).map(|micros| Duration::from_micros(micros.max(0).unsigned_abs()));
    Ok(Place {
        id: get::<&str>(row, 1)?.parse::<PublicId>()?,
        owner: get(row, 2)?,
        weight: u32::try_from(get::<i64>(row, 3)?).unwrap_or(u32::MAX),
        priority: get(row, 5)?,
        token: get::<Option<i64>>(row, 6)?.map(i64::unsigned_abs),
        since: micros(7)?,
        lease_left: micros(8)?,
        note: get(row, 9)?,
        evicted: get(row, 10)?,
    })
}
