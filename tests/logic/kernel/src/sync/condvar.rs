// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Condition variables.

use std::{sync::PoisonError, time::Duration};

use super::{Guard, InnerGuard};
use crate::{init::PinInit, model, time::Jiffies};

enum Inner {
    Std(std::sync::Condvar),
    Model(loom::sync::Condvar),
}

/// A condition variable.
pub struct CondVar(Inner);

/// Result of a wait with a timeout.
pub enum CondVarTimeoutResult {
    /// Woken, with the time that is left.
    Woken {
        /// That time.
        jiffies: Jiffies,
    },
    /// The time is over.
    Timeout,
    /// A signal arrived.
    Signal {
        /// The time that is left.
        jiffies: Jiffies,
    },
}

impl CondVar {
    /// Returns an initializer.
    pub fn new() -> impl PinInit<Self> {
        crate::init::FromFn(|| {
            Ok(Self(match model::is_active() {
                false => Inner::Std(std::sync::Condvar::new()),
                true => Inner::Model(loom::sync::Condvar::new()),
            }))
        })
    }

    /// Waits until woken. Returns whether a signal arrived, which none does on the host.
    pub fn wait_interruptible<T, const SPIN: bool>(&self, guard: &mut Guard<'_, T, SPIN>) -> bool {
        guard.inner = match (guard.inner.take(), &self.0) {
            (Some(InnerGuard::Std(inner)), Inner::Std(this)) => Some(InnerGuard::Std(
                this.wait(inner).unwrap_or_else(PoisonError::into_inner),
            )),
            (Some(InnerGuard::Model(inner)), Inner::Model(this)) => Some(InnerGuard::Model(
                this.wait(inner).unwrap_or_else(PoisonError::into_inner),
            )),
            _ => unreachable!("a lock and a condition variable of two kinds"),
        };
        false
    }

    /// As [`Self::wait_interruptible`], with a timeout. Not within [`model::explore`], where there
    /// is no time.
    pub fn wait_interruptible_timeout<T, const SPIN: bool>(
        &self,
        guard: &mut Guard<'_, T, SPIN>,
        jiffies: Jiffies,
    ) -> CondVarTimeoutResult {
        let (Some(InnerGuard::Std(inner)), Inner::Std(this)) = (guard.inner.take(), &self.0) else {
            unreachable!("a timeout within a model");
        };
        let (inner, result) = this
            .wait_timeout(inner, Duration::from_millis(jiffies))
            .unwrap_or_else(PoisonError::into_inner);
        guard.inner = Some(InnerGuard::Std(inner));
        match result.timed_out() {
            true => CondVarTimeoutResult::Timeout,
            false => CondVarTimeoutResult::Woken { jiffies },
        }
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        match &self.0 {
            Inner::Std(this) => this.notify_all(),
            Inner::Model(this) => this.notify_all(),
        }
    }
}
