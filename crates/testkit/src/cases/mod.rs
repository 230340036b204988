//! The cases, by section.

pub(crate) mod exclusion;
