// SPDX-License-Identifier: GPL-2.0

//! Limits of the clocks of a card that administrators set: the performance level, limits in force,
//! and limits that are edited and not in force yet (`smu_v13_0_6_usr_edit_dpm_table`).

use kernel::prelude::*;

use crate::hw::smu::{Clock, Policy, SmuFacts};

/// Performance level (`amd_dpm_forced_level`).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Level {
    /// Clocks depend on the load.
    #[default]
    Auto,
    /// The same, between limits.
    Manual,
    /// The shader clock does not depend on the load.
    Determinism,
}

/// Limits of the clocks in MHz.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Of the shader clock: lowest and highest.
    pub(crate) engine: (u32, u32),
    /// Highest memory clock.
    pub(crate) memory: u32,
    /// Highest fabric clock.
    pub(crate) fabric: u32,
}

impl Limits {
    /// Returns false before firmware had metrics, from which the clocks are read.
    pub(super) fn are_known(&self) -> bool {
        self.engine != (0, 0)
    }

    /// Returns the limits of a card without settings.
    pub(super) fn of(facts: &SmuFacts) -> Self {
        Self {
            engine: facts.levels(Clock::Engine).range(),
            memory: facts.levels(Clock::Memory).range().1,
            fabric: facts.levels(Clock::Fabric).range().1,
        }
    }
}

/// A limit that can be edited.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    EngineLowest,
    EngineHighest,
    Memory,
    Fabric,
}

/// Limits of the next commit, where they differ from those in force.
#[derive(Clone, Copy, Default)]
pub(super) struct Edits {
    engine_lowest: Option<u32>,
    engine_highest: Option<u32>,
    memory: Option<u32>,
    fabric: Option<u32>,
}

/// Settings of the performance level, clocks, power and policies, as written to sysfs.
#[derive(Clone, Copy, Default)]
pub(super) struct Settings {
    pub(super) level: Level,
    /// Limits in force, those that firmware has accepted, if others than those of the card.
    pub(super) limits: Option<Limits>,
    /// The highest shader clock is that of determinism.
    pub(super) determinism: bool,
    pub(super) edits: Edits,
    /// Power limit in W, if another than that of the card.
    pub(super) power: Option<u32>,
    /// Levels of policies by number, if others than the first.
    pub(super) policies: [Option<u32>; Policy::ALL.len()],
}

impl Settings {
    /// Returns the limits in force.
    pub(super) fn limits(&self, facts: &SmuFacts) -> Limits {
        self.limits.unwrap_or_else(|| Limits::of(facts))
    }

    /// Sets a limit of the next commit, which keeps the one in force for 0. `EINVAL` in the level
    /// [`Level::Auto`], for a limit beyond those of the card, and in the level
    /// [`Level::Determinism`] for another than the highest shader clock.
    pub(super) fn edit(&mut self, facts: &SmuFacts, limit: Limit, mhz: u32) -> Result {
        let card = Limits::of(facts);
        let determinism = self.level == Level::Determinism && limit != Limit::EngineHighest;
        let (edited, allowed) = match limit {
            Limit::EngineLowest => (&mut self.edits.engine_lowest, mhz >= card.engine.0),
            Limit::EngineHighest => (&mut self.edits.engine_highest, mhz <= card.engine.1),
            Limit::Memory => (&mut self.edits.memory, mhz <= card.memory),
            Limit::Fabric => (&mut self.edits.fabric, mhz <= card.fabric),
        };
        if self.level == Level::Auto || determinism || !allowed {
            return Err(EINVAL);
        }
        *edited = (mhz != 0).then_some(mhz);
        Ok(())
    }

    /// Returns the limits of the next commit. `EINVAL` in the level [`Level::Auto`], and if the
    /// lowest shader clock would be above the highest.
    pub(super) fn edited(&self, facts: &SmuFacts) -> Result<Limits> {
        let now = self.limits(facts);
        let limits = Limits {
            engine: (
                self.edits.engine_lowest.unwrap_or(now.engine.0),
                self.edits.engine_highest.unwrap_or(now.engine.1),
            ),
            memory: self.edits.memory.unwrap_or(now.memory),
            fabric: self.edits.fabric.unwrap_or(now.fabric),
        };
        let (mut lowest, highest) = limits.engine;
        // Applies in the level manual only (`smu_v13_0_6_set_soft_freq_limited_range`).
        if self.level == Level::Determinism {
            lowest = Limits::of(facts).engine.0;
        }
        if self.level == Level::Auto || lowest > highest {
            return Err(EINVAL);
        }
        Ok(limits)
    }
}
