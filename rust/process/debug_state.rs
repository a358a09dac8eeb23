// SPDX-License-Identifier: GPL-2.0

//! State of a process for debuggers, see [`super::debug`].

use kernel::prelude::*;

use super::events::MemoryException;
use crate::{hw::WaveDebug, kapi::file::Notified, queue::Exceptions};

/// The runtime of a process (`struct kfd_runtime_info`).
#[derive(Clone, Copy, Default)]
pub(crate) struct Runtime {
    /// Address of a structure that the runtime shares with the debugger.
    pub(crate) r_debug: u64,
    /// RUNTIME_ENABLE was called.
    pub(crate) enabled: bool,
    /// RUNTIME_ENABLE requested the setup of trap temporaries (TTMPs).
    pub(crate) ttmp_setup: bool,
}

/// A debugger session.
pub(super) struct Session {
    /// Notified of events.
    pub(super) file: Notified,
    /// Exceptions that the debugger is notified of.
    pub(super) enabled: Exceptions,
    /// Key of the debugger's address space.
    pub(super) debugger: usize,
}

/// Exceptions of a GPU, and the debugger's settings there.
#[derive(Default)]
pub(super) struct DeviceStatus {
    /// Those that were not cleared.
    pub(super) status: Exceptions,
    /// The first VM fault since the last one was cleared.
    pub(super) fault: Option<MemoryException>,
    /// How its waves start; watchpoints are not used.
    pub(super) waves: WaveDebug,
}

/// State of a call of RUNTIME_ENABLE that was interrupted by a signal.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// No call was interrupted.
    #[default]
    No,
    /// The next call continues the wait in the session with this number.
    Waiting(u64),
    /// The session has ended since: the next call that enables the runtime does not wait.
    Over,
}

/// State of a process for debuggers. The lock is a leaf, and is taken by the interrupt thread.
pub(super) struct DebugState {
    /// The session.
    pub(super) session: Option<Session>,
    /// Number of sessions that were started.
    pub(super) sessions: u64,
    /// The runtime.
    pub(super) runtime: Runtime,
    /// Exceptions of the process.
    pub(super) status: Exceptions,
    /// Those of its GPUs, in their order.
    pub(super) devices: KVec<DeviceStatus>,
    /// Replies of the debugger that no call of RUNTIME_ENABLE has consumed.
    pub(super) replies: u32,
    /// Flags of SET_FLAGS.
    pub(super) flags: u32,
    /// Whether a call of RUNTIME_ENABLE was interrupted.
    pub(super) interrupted: Interrupted,
}

impl DebugState {
    /// Returns the state of a process with so many GPUs, without a session.
    pub(super) fn new(devices: usize) -> Result<Self> {
        let mut all = KVec::with_capacity(devices, GFP_KERNEL)?;
        for _ in 0..devices {
            all.push(DeviceStatus::default(), GFP_KERNEL)?;
        }
        Ok(Self {
            session: None,
            sessions: 0,
            runtime: Runtime::default(),
            status: Exceptions::default(),
            devices: all,
            replies: 0,
            flags: 0,
            interrupted: Interrupted::No,
        })
    }

    /// Returns the number of the session, if there is one.
    pub(super) fn session_number(&self) -> Option<u64> {
        self.session.as_ref().map(|_| self.sessions)
    }

    /// Returns whether the debugger has enabled one of these.
    pub(super) fn is_enabled(&self, exceptions: Exceptions) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| session.enabled.has(exceptions))
    }
}
