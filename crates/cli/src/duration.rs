//! Durations as people write them: `500ms`, `30s`, `5m`, `1h30m`.

use std::time::Duration;

/// The units, the largest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads `500ms`, `30s`, `5m`, `1h30m` or `0`. A bare number has no unit and is refused: nobody knows which was meant.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let wrong = || "write it like 500ms, 30s, 5m or 1h30m".to_owned();
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let (_, millis) = UNITS.iter().find(|(known, _)| *known == unit).ok_or_else(wrong)?;
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*millis)).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = after;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Duration::from_millis(total)) }
}

/// Shows a duration by its two largest units: `1h30m`, `3m12s`, `45s`, `500ms`.
pub(crate) fn show(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis >= 1_000 {
        millis -= millis % 1_000;
    }
    let Some(largest) = UNITS.iter().position(|(_, unit)| millis >= *unit) else { return "0s".to_owned() };
    UNITS[largest..].iter().take(2).fold(String::new(), |text, (name, unit)| {
        let count = millis / unit;
        millis %= unit;
        if count == 0 { text } else { format!("{text}{count}{name}") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read_and_shown() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("1h30m", 5_400_000), ("2d", 172_800_000)]
        {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse(text), Ok(duration));
            assert_eq!(show(duration), text);
        }
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        assert_eq!(show(Duration::ZERO), "0s");
        assert_eq!(show(Duration::from_millis(192_345)), "3m12s");
        assert_eq!(show(Duration::from_millis(93_784_000)), "1d2h");
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in ["", "30", "s", "5 m", "1.5s", "-1s", "5y", "99999999999999999999s", "99999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
