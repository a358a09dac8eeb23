// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `kernel::id_pool`: ids from a bitmap that the caller grows.

use crate::alloc::{allocate, AllocError, Flags};

/// Ids that a pool has without an allocation.
const INLINE: usize = 64;
/// The most ids of a pool.
const MAX: usize = i32::MAX as usize;

/// A pool of ids.
pub struct IdPool(Vec<bool>);

/// The size of a larger pool.
pub struct ReallocRequest(usize);

/// The memory of a larger pool.
pub struct PoolResizer(usize);

/// An id that is free.
pub struct UnusedId<'a> {
    pool: &'a mut IdPool,
    id: usize,
}

impl Default for IdPool {
    fn default() -> Self {
        Self::new()
    }
}

impl IdPool {
    /// Returns a pool of 64 ids.
    pub fn new() -> Self {
        Self(vec![false; INLINE])
    }

    /// Returns a pool of at least `count` ids.
    pub fn with_capacity(count: usize, flags: Flags) -> Result<Self, AllocError> {
        if count > INLINE {
            allocate(flags)?;
        }
        Ok(Self(vec![false; count.max(INLINE)]))
    }

    /// Returns the number of ids, free or not.
    pub fn capacity(&self) -> usize {
        self.0.len()
    }

    /// Returns the size that the pool grows to; `None` if it may not.
    pub fn grow_request(&self) -> Option<ReallocRequest> {
        let count = self.capacity() * 2;
        (count <= MAX).then_some(ReallocRequest(count))
    }

    /// Grows the pool.
    pub fn grow(&mut self, to: PoolResizer) {
        if to.0 > self.capacity() {
            self.0.resize(to.0, false);
        }
    }

    /// Returns the lowest free id from `from` on, which is below the capacity: a hardened kernel
    /// panics, too.
    pub fn find_unused_id(&mut self, from: usize) -> Option<UnusedId<'_>> {
        assert!(from < self.capacity(), "search from {from} on");
        let id = (from..self.0.len()).find(|id| !self.0[*id])?;
        Some(UnusedId { pool: self, id })
    }

    /// Frees an id.
    pub fn release_id(&mut self, id: usize) {
        self.0[id] = false;
    }
}

impl ReallocRequest {
    /// Allocates the memory.
    pub fn realloc(&self, flags: Flags) -> Result<PoolResizer, AllocError> {
        allocate(flags)?;
        Ok(PoolResizer(self.0))
    }
}

impl UnusedId<'_> {
    /// Returns the id.
    pub fn as_usize(&self) -> usize {
        self.id
    }

    /// Returns the id.
    pub fn as_u32(&self) -> u32 {
        // At most `MAX`.
        self.id as u32
    }

    /// Takes the id.
    pub fn acquire(self) -> usize {
        self.pool.0[self.id] = true;
        self.id
    }
}
