//! A short list without an allocation.
//!
//! The checker copies, hashes and compares millions of states: a state that lies in one piece of memory makes that
//! several times as fast as one made of vectors.

use std::fmt;
use std::hash::{Hash, Hasher};

/// At most `N` items, in order.
#[derive(Clone, Copy)]
pub(crate) struct Few<T, const N: usize> {
    items: [Option<T>; N],
    len: u8,
}

impl<T: Copy + PartialEq, const N: usize> Few<T, N> {
    pub(crate) const fn new() -> Self {
        Self { items: [None; N], len: 0 }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = T> + '_ {
        self.items[..self.len()].iter().copied().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> + '_ {
        let len = self.len();
        self.items[..len].iter_mut().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == N
    }

    pub(crate) fn contains(&self, item: T) -> bool {
        self.iter().any(|other| other == item)
    }

    /// `false` when there is no room.
    pub(crate) fn push(&mut self, item: T) -> bool {
        if self.is_full() {
            return false;
        }
        self.items[self.len()] = Some(item);
        self.len += 1;
        true
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(T) -> bool) {
        let before = *self;
        *self = Self::new();
        for item in before.iter().filter(|&item| keep(item)) {
            self.push(item);
        }
    }
}

impl<T: Copy + Ord, const N: usize> Few<T, N> {
    /// Makes the list a set: two states that differ only in the order of what is in it are one state.
    pub(crate) fn normalize(&mut self) {
        let len = self.len();
        self.items[..len].sort_unstable();
        let sorted = *self;
        *self = Self::new();
        for item in sorted.iter() {
            if !self.contains(item) {
                self.push(item);
            }
        }
    }
}

impl<T: Copy + PartialEq, const N: usize> PartialEq for Few<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T: Copy + Eq, const N: usize> Eq for Few<T, N> {}

impl<T: Copy + PartialEq + Hash, const N: usize> Hash for Few<T, N> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u8(self.len);
        self.iter().for_each(|item| item.hash(hasher));
    }
}

impl<T: Copy + PartialEq + fmt::Debug, const N: usize> fmt::Debug for Few<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
