// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Registers whose value changes some time after the access that causes it, in adversarial mode.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::{Ip, RegId, Slot};
use crate::adversary::Adversary;

type Values = HashMap<(Ip, u8, RegId), (Instant, u32)>;

/// See the module documentation.
pub struct Late {
    adversary: Option<Arc<Adversary>>,
    values: Mutex<Values>,
    /// Whether there are any. Reads check only this flag if not.
    any: AtomicBool,
}

impl Late {
    /// Returns a state without values. Without an adversary there are never any.
    pub fn new(adversary: Option<Arc<Adversary>>) -> Self {
        Self {
            adversary,
            values: Mutex::default(),
            any: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Sets a register: at once, or after a time of the adversary.
    pub fn set(&self, slot: &Slot, value: u32, time: fn(&Adversary) -> Duration) {
        let Some(adversary) = &self.adversary else {
            slot.set(value);
            return;
        };
        let due = Instant::now() + time(adversary);
        self.lock()
            .insert((slot.ip, slot.instance, slot.id), (due, value));
        self.any.store(true, Ordering::Release);
    }

    /// Sets a register to its value if that is due. Called before each read.
    #[inline]
    pub fn settle(&self, slot: &Slot) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut values = self.lock();
        let key = (slot.ip, slot.instance, slot.id);
        if values
            .get(&key)
            .is_some_and(|(due, _)| *due <= Instant::now())
        {
            if let Some((_, value)) = values.remove(&key) {
                slot.set(value);
            }
        }
        self.any.store(!values.is_empty(), Ordering::Release);
    }

    /// Returns whether a register has a value that is not due yet.
    pub fn is_pending(&self, slot: &Slot) -> bool {
        self.settle(slot);
        let key = (slot.ip, slot.instance, slot.id);
        self.any.load(Ordering::Acquire) && self.lock().contains_key(&key)
    }

    /// Drops all values.
    pub fn clear(&self) {
        self.lock().clear();
        self.any.store(false, Ordering::Release);
    }
}
