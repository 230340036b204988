//! Where a key is in a cluster: "Key distribution model" in the Redis cluster specification.

use std::sync::LazyLock;

/// So many slots there are, divided among the masters.
const SLOTS: u16 = 16384;

/// The slot of a key: of the part in its first braces, if there is something in them.
pub(crate) fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    crc16(tag.filter(|tag| !tag.is_empty()).unwrap_or(key)) % SLOTS
}

/// A number whose slot this is: in braces, it puts any key into the slot.
pub(crate) fn tag(slot: u16) -> u32 {
    static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
        let mut tags = vec![None; usize::from(SLOTS)];
        let mut left = tags.len();
        for number in 0u32.. {
            let tag: &mut Option<u32> = &mut tags[usize::from(crc16(&number.to_string()) % SLOTS)];
            left -= usize::from(tag.replace(tag.unwrap_or(number)).is_none());
            if left == 0 {
                break;
            }
        }
        tags.into_iter().flatten().collect()
    });
    TAGS[usize::from(slot)]
}

/// CRC-16/XMODEM.
fn crc16(text: &str) -> u16 {
    text.bytes().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16("123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12182);
        assert_eq!(slot("{user1000}.following"), slot("user1000"));
        assert_eq!(slot("foo{}{bar}"), crc16("foo{}{bar}") % SLOTS);
        assert_eq!(slot("foo{{bar}}zap"), slot("{bar"));
    }

    #[test]
    fn every_slot_has_a_tag() {
        for number in 0..SLOTS {
            assert_eq!(slot(&format!("{{{}}}\tx", tag(number))), number);
        }
    }
}
