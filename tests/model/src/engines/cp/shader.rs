// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Interface between dispatches and the shader interpreter: workgroups that can be interrupted.

use std::sync::Arc;

use gpu_wave::{Dispatch, Host, Memory, SavedWave, Stop, WaveSlots, Workgroup};

/// A workgroup that has started.
pub trait Running: Send {
    /// Runs it until it ends, or until [`Host::poll`] requests an interruption
    /// ([`Stop::Interrupted`]); a later call resumes it.
    fn run(&mut self, memory: &dyn Memory, host: &dyn Host) -> Result<(), Stop>;

    /// Raises SAVECTX in its waves: [`Running::run`] ends with [`Stop::Saved`] when the trap
    /// handler has saved them.
    fn save(&mut self);

    /// Returns whether its waves are in the trap handler, such as while they are restored.
    fn is_in_handler(&self) -> bool;
}

/// Executes workgroups.
pub trait Shader: Sync {
    /// Starts the workgroup with id `group` on `slots`.
    fn start(&self, d: &Arc<Dispatch>, group: [u32; 3], slots: WaveSlots) -> Box<dyn Running>;

    /// Starts a saved workgroup in the restore routine of the trap handler.
    fn restore(
        &self,
        d: &Arc<Dispatch>,
        group: [u32; 3],
        slots: WaveSlots,
        waves: &[SavedWave],
    ) -> Box<dyn Running>;
}

/// The interpreter of [`gpu_wave`].
pub struct Interpreter;

enum Group {
    Started(Workgroup<Arc<Dispatch>>),
    Refused(Stop),
}

impl Running for Group {
    fn run(&mut self, memory: &dyn Memory, host: &dyn Host) -> Result<(), Stop> {
        match self {
            Group::Started(group) => group.run(memory, host),
            Group::Refused(stop) => Err(stop.clone()),
        }
    }

    fn is_in_handler(&self) -> bool {
        matches!(self, Group::Started(group) if group.is_in_handler())
    }

    fn save(&mut self) {
        if let Group::Started(group) = self {
            group.save();
        }
    }
}

impl Shader for Interpreter {
    fn start(&self, d: &Arc<Dispatch>, group: [u32; 3], slots: WaveSlots) -> Box<dyn Running> {
        started(Workgroup::new(d.clone(), group), slots)
    }

    fn restore(
        &self,
        d: &Arc<Dispatch>,
        group: [u32; 3],
        slots: WaveSlots,
        waves: &[SavedWave],
    ) -> Box<dyn Running> {
        started(Workgroup::restore(d.clone(), group, waves), slots)
    }
}

fn started(group: Result<Workgroup<Arc<Dispatch>>, Stop>, slots: WaveSlots) -> Box<dyn Running> {
    Box::new(match group {
        Ok(mut group) => {
            group.set_wave_slots(slots);
            Group::Started(group)
        }
        Err(stop) => Group::Refused(stop),
    })
}
