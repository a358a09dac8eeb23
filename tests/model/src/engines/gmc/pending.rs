// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Invalidation requests of a hub that are not completed yet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::hub::Request;

/// See the module documentation.
#[derive(Default)]
pub struct Pending {
    requests: Mutex<Vec<(Instant, Request)>>,
    /// Whether there are any. Accesses read only this flag if not.
    any: AtomicBool,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, Request)>> {
        self.requests.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a request that completes after `time`.
    pub fn add(&self, request: Request, time: Duration) {
        let mut requests = self.lock();
        requests.push((Instant::now() + time, request));
        self.any.store(true, Ordering::Release);
    }

    /// Removes a request whose time has come.
    #[inline]
    pub fn due(&self) -> Option<Request> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut requests = self.lock();
        let now = Instant::now();
        let found = requests.iter().position(|(due, _)| *due <= now)?;
        let (_, request) = requests.swap_remove(found);
        self.any.store(!requests.is_empty(), Ordering::Release);
        Some(request)
    }

    /// Drops all requests.
    pub fn clear(&self) {
        self.lock().clear();
        self.any.store(false, Ordering::Release);
    }
}
