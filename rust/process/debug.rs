// SPDX-License-Identifier: GPL-2.0

//! Debugger sessions with a process (`kfd_debug.c`), and the state of its runtime.
//!
//! A debugger enables exceptions and is notified of them through a file. Exceptions that are raised
//! during a session are recorded until the debugger clears them, enabled or not: those of queues in
//! their [`ExceptionTable`], those of GPUs and of the process here. An exception that is not
//! enabled is delivered as without a debugger.
//!
//! [`ExceptionTable`]: crate::queue::ExceptionTable

use core::slice;

use kernel::{
    prelude::*,
    sync::{lock::mutex::MutexGuard, Arc},
    workqueue::WorkItem,
};

pub(crate) use super::debug_state::{Interrupted, Runtime};

use super::{
    debug_state::{DebugState, DeviceStatus, Session},
    events::MemoryException,
    exceptions,
    kfd_process::{Process, ProcessState, NOTIFY_WORK},
    pdd::ProcessDevice,
    table,
    vm_fault::schedule_fault,
};
use crate::{
    hw::WaveDebug,
    kapi::{file::Notified, task},
    queue::Exceptions,
    trace,
};

/// An exception that a debugger queries.
pub(crate) struct DebugEvent {
    /// All exceptions of the queue, the GPU, or the process.
    pub(crate) exceptions: Exceptions,
    /// The queue, 0 if it is none.
    pub(crate) queue: u32,
    /// The GPU, 0 if it is the process.
    pub(crate) gpu: u32,
}

/// Data of an exception.
#[derive(Clone, Copy)]
pub(crate) enum ExceptionInfo {
    /// There is none.
    None,
    /// The runtime.
    Runtime(Runtime),
    /// A VM fault.
    Memory(MemoryException),
}

/// An exception that was read, and cleared or not.
pub(crate) struct TakenException {
    exception: Exceptions,
    /// The queue or the GPU.
    source: u32,
    info: ExceptionInfo,
    /// The number of the session in which it was cleared.
    cleared_in: Option<u64>,
}

impl TakenException {
    /// Returns the data.
    pub(crate) fn info(&self) -> ExceptionInfo {
        self.info
    }
}

impl Process {
    /// Returns whether RUNTIME_ENABLE was called: exceptions of queues are delivered to the
    /// runtime.
    pub(crate) fn runtime_enabled(&self) -> bool {
        self.debug().lock().runtime.enabled
    }

    /// Returns the runtime.
    pub(crate) fn runtime(&self) -> Runtime {
        self.debug().lock().runtime
    }

    /// Sets the state of the runtime, and notifies the debugger if `notify` is set. Without a
    /// runtime, ends what the debugger has set up: resumes the queues, clears flags and settings of
    /// waves. Returns the number of the session, if there is one: the caller has to wait for its
    /// debugger, by [`Self::wait_for_debugger`] and without the process lock.
    pub(crate) fn set_runtime(
        self: &Arc<Self>,
        state: &ProcessState,
        runtime: Runtime,
        notify: bool,
    ) -> Option<u64> {
        let mut debug = self.debug().lock();
        debug.runtime = runtime;
        let session = debug.session_number();
        if !runtime.enabled {
            for device in &mut debug.devices {
                device.waves = WaveDebug::default();
            }
            debug.flags = 0;
        }
        drop(debug);
        if session.is_some() && !runtime.enabled {
            self.resume_suspended(state);
            self.reset_waves();
        }
        self.show_debugger();
        if session.is_some() && notify {
            self.raise_of_process(Exceptions::RUNTIME);
        }
        session
    }

    /// Returns whether a call of RUNTIME_ENABLE was interrupted, and clears the record of one whose
    /// session has ended.
    pub(crate) fn interrupted_runtime(&self) -> Interrupted {
        let mut debug = self.debug().lock();
        let interrupted = debug.interrupted;
        if interrupted == Interrupted::Over {
            debug.interrupted = Interrupted::No;
        }
        interrupted
    }

    /// Waits until the debugger replies to a change of the runtime, or the session with this number
    /// ends. `EINTR` after a signal; another call then continues the wait.
    pub(crate) fn wait_for_debugger(&self, session: u64) -> Result {
        let mut debug = self.debug().lock();
        debug.interrupted = Interrupted::No;
        let mut signaled = false;
        loop {
            // Another one may have begun; its replies are for other calls.
            if debug.session_number() != Some(session) {
                return Ok(());
            }
            if let Some(left) = debug.replies.checked_sub(1) {
                debug.replies = left;
                return Ok(());
            }
            if signaled {
                debug.interrupted = Interrupted::Waiting(session);
                return Err(EINTR);
            }
            signaled = self.debugger_replied().wait_interruptible(&mut debug);
        }
    }

    /// Returns whether the caller may debug this process: itself, its tracer, or its debugger.
    pub(crate) fn may_be_debugged_by(&self, caller: &Process) -> bool {
        core::ptr::eq(self, caller)
            || task::is_traced_by_current(self.leader())
            || self.is_debugged_by(caller.mm())
    }

    /// Returns whether the process with this address space debugs this one.
    pub(super) fn is_debugged_by(&self, debugger: usize) -> bool {
        let debug = self.debug().lock();
        let session = debug.session.as_ref();
        session.is_some_and(|session| session.debugger == debugger)
    }

    /// Returns whether there is a session.
    pub(crate) fn is_debugged(&self) -> bool {
        self.debug().lock().session.is_some()
    }

    /// Returns the number of the session, if there is one.
    pub(crate) fn session(&self) -> Option<u64> {
        self.debug().lock().session_number()
    }

    /// Starts a session and returns its number. `EALREADY` if there is one, `ENOMEM` without
    /// memory.
    pub(crate) fn attach_debugger(
        self: &Arc<Self>,
        _state: &ProcessState,
        debugger: &Process,
        file: Notified,
        enabled: Exceptions,
    ) -> Result<u64> {
        let listing = table::DebuggedMemory::new()?;
        let mut debug = self.debug().lock();
        if debug.session.is_some() {
            return Err(EALREADY);
        }
        debug.session = Some(Session {
            file,
            enabled,
            debugger: debugger.mm(),
        });
        debug.sessions += 1;
        let number = debug.sessions;
        drop(debug);
        table::list_debugged(listing, debugger.mm(), self);
        self.show_debugger();
        trace::process(self.pid(), 0, c"debugged");
        Ok(number)
    }

    /// Ends the session, if there is one: resumes the queues, clears all exceptions, and ends waits
    /// for the debugger.
    pub(crate) fn detach_debugger(&self, state: &ProcessState) {
        let Some(session) = self.debug().lock().session.take() else {
            return;
        };
        table::unlist_debugged(session.debugger, self);
        self.resume_suspended(state);
        for (_, queue) in state.queues.iter() {
            queue.exceptions().clear(Exceptions::ALL);
        }
        let mut debug = self.debug().lock();
        debug.status = Exceptions::default();
        for device in &mut debug.devices {
            *device = DeviceStatus::default();
        }
        debug.replies = 0;
        debug.flags = 0;
        if matches!(debug.interrupted, Interrupted::Waiting(_)) {
            debug.interrupted = Interrupted::Over;
        }
        drop(debug);
        self.debugger_replied().notify_all();
        self.reset_waves();
        self.show_debugger();
        trace::process(self.pid(), 0, c"not debugged");
        // Closing the file runs code of its owner: without the lock.
        drop(session);
    }

    /// Ends the sessions in which this process is the debugger.
    pub(super) fn detach_from_debugged(&self) {
        while let Some(target) = table::debugged_by(self.mm()) {
            target.detach_debugger(&target.inspect());
        }
    }

    /// Resumes the queues that a debugger has suspended.
    fn resume_suspended(&self, state: &ProcessState) {
        for device in self.devices() {
            let suspended = || state.queues.suspended_on(device.node());
            let mut list = KVec::new();
            let listed = suspended().try_for_each(|queue| list.push(queue.clone(), GFP_KERNEL));
            let resumed = match listed {
                Ok(()) => device.resume(&list),
                // No memory for a list.
                Err(_) => suspended().try_for_each(|queue| device.resume(slice::from_ref(queue))),
            };
            if let Err(e) = resumed {
                dev_err!(
                    device.gpu().dev(),
                    "process {}: queues were not resumed: {e:?}\n",
                    self.pid()
                );
            }
        }
        self.queues_resumed().notify_all();
    }

    /// Clears the settings of waves.
    fn reset_waves(&self) {
        for device in self.devices() {
            if let Err(e) = device.reset_wave_debug() {
                dev_err!(
                    device.gpu().dev(),
                    "process {}: settings of a debugger were not reset: {e:?}\n",
                    self.pid()
                );
            }
        }
    }

    /// Passes the debugger's state to the GPUs: whether one is attached to the trap handler, and
    /// its wave settings to the scheduler.
    pub(crate) fn show_debugger(&self) {
        for device in self.devices() {
            let (debugged, waves) = {
                let mut debug = self.debug().lock();
                let debugged = debug.session.is_some() && debug.runtime.enabled;
                let waves = self.status_of(&mut debug, device.id()).map(|d| d.waves);
                (debugged, waves.unwrap_or_default())
            };
            let shown = device.set_debugged(debugged);
            if let Err(e) = shown.and_then(|()| device.set_wave_debug(waves)) {
                dev_err!(
                    device.gpu().dev(),
                    "process {}: debug settings were not applied to the queues: {e:?}\n",
                    self.pid()
                );
            }
        }
    }

    /// Returns the flags of SET_FLAGS.
    pub(crate) fn debug_flags(&self) -> u32 {
        self.debug().lock().flags
    }

    /// Sets the flags of SET_FLAGS, for the debugger to read.
    pub(crate) fn set_debug_flags(&self, flags: u32) {
        self.debug().lock().flags = flags;
    }

    /// Changes how the waves start on each GPU, until one fails: it and those after it keep what
    /// they have. Errors as [`Dqm::set_wave_debug`](crate::dqm::Dqm::set_wave_debug).
    pub(crate) fn change_waves(
        &self,
        _state: &ProcessState,
        mut f: impl FnMut(&mut WaveDebug),
    ) -> Result {
        for device in self.devices() {
            let mut waves = {
                let mut debug = self.debug().lock();
                self.status_of(&mut debug, device.id()).ok_or(EINVAL)?.waves
            };
            f(&mut waves);
            device.set_wave_debug(waves)?;
            let mut debug = self.debug().lock();
            if let Some(entry) = self.status_of(&mut debug, device.id()) {
                entry.waves = waves;
            }
        }
        Ok(())
    }

    /// Sets the exceptions that the debugger is notified of; notifies it if there is one.
    pub(crate) fn enable_exceptions(self: &Arc<Self>, state: &ProcessState, enabled: Exceptions) {
        let mut debug = self.debug().lock();
        let mut raised = debug.status;
        for device in &debug.devices {
            raised |= device.status;
        }
        for (_, queue) in state.queues.iter() {
            raised |= queue.exceptions().status();
        }
        if let Some(session) = debug.session.as_mut() {
            session.enabled = enabled;
        }
        drop(debug);
        if raised.has(enabled) {
            self.place().enqueue::<_, NOTIFY_WORK>(self.clone());
        }
    }

    /// Notifies the debugger, if it has enabled one of the exceptions. Returns whether it has.
    fn notify(self: &Arc<Self>, debug: MutexGuard<'_, DebugState>, exceptions: Exceptions) -> bool {
        let enabled = debug.is_enabled(exceptions);
        drop(debug);
        if enabled {
            self.place().enqueue::<_, NOTIFY_WORK>(self.clone());
        }
        enabled
    }

    /// Raises exceptions of the queue with a doorbell. Returns whether the debugger is notified.
    pub(crate) fn raise_of_queue(
        self: &Arc<Self>,
        device: &ProcessDevice,
        doorbell: u32,
        exceptions: Exceptions,
    ) -> bool {
        let debug = self.debug().lock();
        if debug.session.is_none() {
            return false;
        }
        if let Some(table) = device.exceptions() {
            table.record(doorbell, exceptions);
        }
        self.notify(debug, exceptions)
    }

    /// Raises exceptions of a GPU. Returns whether the debugger is notified.
    pub(crate) fn raise_of_device(
        self: &Arc<Self>,
        device: &ProcessDevice,
        exceptions: Exceptions,
    ) -> bool {
        self.raise_on(device, exceptions, |_| {})
    }

    /// Raises a VM fault. Returns whether the debugger is notified: the driver does not handle the
    /// fault then.
    pub(super) fn raise_fault(
        self: &Arc<Self>,
        device: &ProcessDevice,
        fault: MemoryException,
    ) -> bool {
        self.raise_on(device, Exceptions::MEMORY_VIOLATION, |entry| {
            entry.fault.get_or_insert(fault);
        })
    }

    /// Raises exceptions of a GPU, and records them by `record`, too.
    fn raise_on(
        self: &Arc<Self>,
        device: &ProcessDevice,
        exceptions: Exceptions,
        record: impl FnOnce(&mut DeviceStatus),
    ) -> bool {
        let mut debug = self.debug().lock();
        if debug.session.is_none() {
            return false;
        }
        if let Some(entry) = self.status_of(&mut debug, device.id()) {
            entry.status |= exceptions;
            record(entry);
        }
        self.notify(debug, exceptions)
    }

    fn raise_of_process(self: &Arc<Self>, exceptions: Exceptions) {
        let mut debug = self.debug().lock();
        debug.status |= exceptions;
        self.notify(debug, exceptions);
    }

    /// Returns the exceptions of the GPU with this id.
    fn status_of<'a>(
        &self,
        debug: &'a mut DebugState,
        gpu_id: u32,
    ) -> Option<&'a mut DeviceStatus> {
        let at = self.devices().iter().position(|d| d.id() == gpu_id)?;
        debug.devices.get_mut(at)
    }

    /// Returns the exceptions of the GPU with this id, and clears some.
    pub(crate) fn take_device_status(&self, gpu_id: u32, clear: Exceptions) -> Exceptions {
        self.take_status(&mut self.debug().lock(), gpu_id, clear)
    }

    fn take_status(&self, debug: &mut DebugState, gpu_id: u32, clear: Exceptions) -> Exceptions {
        let Some(entry) = self.status_of(debug, gpu_id) else {
            return Exceptions::default();
        };
        let status = entry.status;
        entry.status = status.without(clear);
        status
    }

    /// Raises exceptions of a GPU again that were cleared in session number `session`, if that has
    /// not ended.
    pub(crate) fn put_back_status(&self, session: u64, gpu_id: u32, exceptions: Exceptions) {
        let mut debug = self.debug().lock();
        if debug.session_number() != Some(session) {
            return;
        }
        if let Some(entry) = self.status_of(&mut debug, gpu_id) {
            entry.status |= exceptions;
        }
    }

    /// Returns the exceptions of a queue, a GPU, or the process of which one is enabled, and clears
    /// some of them. `EAGAIN` without one.
    pub(crate) fn take_event(&self, state: &ProcessState, clear: Exceptions) -> Result<DebugEvent> {
        let mut debug = self.debug().lock();
        for (id, queue) in state.queues.iter() {
            let status = queue.exceptions().status();
            if debug.is_enabled(status) {
                queue.exceptions().clear(clear);
                return Ok(DebugEvent {
                    exceptions: status,
                    queue: id,
                    gpu: queue.node().id(),
                });
            }
        }
        let mut devices = debug.devices.iter();
        let raised = devices.position(|entry| debug.is_enabled(entry.status));
        if let Some(device) = raised.and_then(|at| self.devices().get(at)) {
            return Ok(DebugEvent {
                exceptions: self.take_status(&mut debug, device.id(), clear),
                queue: 0,
                gpu: device.id(),
            });
        }
        let status = debug.status;
        if !debug.is_enabled(status) {
            return Err(EAGAIN);
        }
        debug.status = status.without(clear);
        Ok(DebugEvent {
            exceptions: status,
            queue: 0,
            gpu: 0,
        })
    }

    /// Returns one exception of the queue or the GPU `source`, or of the process, with its data.
    /// With `clear`, clears both: one that is raised later stays. `EINVAL` for an unknown exception
    /// or source, `ENODATA` if it was not raised.
    pub(crate) fn take_exception(
        &self,
        state: &ProcessState,
        code: u32,
        source: u32,
        clear: bool,
    ) -> Result<TakenException> {
        let exception = Exceptions::of_code(code).ok_or(EINVAL)?;
        let mut debug = self.debug().lock();
        let mut info = ExceptionInfo::None;
        let status = if exception.has(Exceptions::OF_QUEUES) {
            state
                .queues
                .get(source)
                .ok_or(EINVAL)?
                .exceptions()
                .status()
        } else if exception.has(Exceptions::OF_DEVICES) {
            let entry = self.status_of(&mut debug, source).ok_or(EINVAL)?;
            if let (Exceptions::MEMORY_VIOLATION, Some(fault)) = (exception, entry.fault) {
                info = ExceptionInfo::Memory(fault);
            }
            entry.status
        } else if exception.has(Exceptions::OF_PROCESSES) {
            if exception == Exceptions::RUNTIME {
                info = ExceptionInfo::Runtime(debug.runtime);
            }
            debug.status
        } else {
            return Err(EINVAL);
        };
        if !status.has(exception) {
            return Err(ENODATA);
        }
        if clear {
            self.clear_exception(&mut debug, state, exception, source);
        }
        Ok(TakenException {
            exception,
            source,
            info,
            cleared_in: clear.then_some(debug.sessions),
        })
    }

    fn clear_exception(
        &self,
        debug: &mut DebugState,
        state: &ProcessState,
        exception: Exceptions,
        source: u32,
    ) {
        if exception.has(Exceptions::OF_QUEUES) {
            if let Some(queue) = state.queues.get(source) {
                queue.exceptions().clear(exception);
            }
        } else if exception.has(Exceptions::OF_DEVICES) {
            if let Some(entry) = self.status_of(debug, source) {
                entry.status = entry.status.without(exception);
                if exception == Exceptions::MEMORY_VIOLATION {
                    entry.fault = None;
                }
            }
        } else {
            debug.status = debug.status.without(exception);
        }
    }

    /// Raises an exception with data again that was cleared and could not be passed on, in the same
    /// session. A VM fault stays the first one: the data of a later one are dropped, as if this one
    /// had not been cleared.
    pub(crate) fn put_back(&self, taken: TakenException) {
        let mut debug = self.debug().lock();
        if debug.session_number().is_none() || taken.cleared_in != debug.session_number() {
            return;
        }
        match taken.info {
            ExceptionInfo::None => {}
            ExceptionInfo::Runtime(_) => debug.status |= taken.exception,
            ExceptionInfo::Memory(fault) => {
                if let Some(entry) = self.status_of(&mut debug, taken.source) {
                    entry.status |= taken.exception;
                    entry.fault = Some(fault);
                }
            }
        }
    }

    /// Sends exceptions to the runtime, as without a debugger: a VM fault of a GPU, a reply to
    /// RUNTIME_ENABLE, exceptions of a queue. `ENODEV` without such a GPU.
    pub(crate) fn send_to_runtime(
        self: &Arc<Self>,
        state: &ProcessState,
        gpu_id: u32,
        queue_id: u32,
        exceptions: Exceptions,
    ) -> Result {
        if exceptions.has(Exceptions::MEMORY_VIOLATION) {
            let device = self.devices().iter().find(|d| d.id() == gpu_id);
            let device = device.ok_or(ENODEV)?;
            let fault = {
                let mut debug = self.debug().lock();
                self.status_of(&mut debug, gpu_id).and_then(|d| d.fault)
            };
            // Without recorded data, as after the fault was cleared, the report is imprecise.
            let fault = fault.unwrap_or(MemoryException {
                gpu_id,
                imprecise: true,
                ..MemoryException::default()
            });
            schedule_fault(self.clone(), device, fault);
        }
        if exceptions.has(Exceptions::RUNTIME) {
            let mut debug = self.debug().lock();
            debug.replies = debug.replies.saturating_add(1);
            drop(debug);
            self.debugger_replied().notify_all();
        }
        let of_queue = exceptions.without(Exceptions::MEMORY_VIOLATION | Exceptions::RUNTIME);
        if let Some(queue) = state.queues.get(queue_id).filter(|_| !of_queue.is_empty()) {
            let device = self.device(queue.node().id())?;
            exceptions::schedule(self, device, queue.doorbell_id(), of_queue);
        }
        Ok(())
    }
}

impl WorkItem<NOTIFY_WORK> for Process {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let file = {
            let debug = this.debug().lock();
            debug.session.as_ref().map(|session| session.file.clone())
        };
        if let Some(file) = file {
            file.notify();
        }
    }
}
