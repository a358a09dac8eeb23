// SPDX-License-Identifier: GPL-2.0 OR MIT

//! HQD slots: numbering of the queues of MECs, MES and SDMA engines.

use crate::chips::Generation;
use crate::regs::Selector;

/// Number of MECs.
const MECS: usize = 2;
/// Pipes of a MEC.
const PIPES: usize = 4;
/// Queues of a pipe.
const QUEUES: usize = 8;
/// Maximum number of MEC HQDs.
pub const MEC_SLOTS: usize = MECS * PIPES * QUEUES;
/// Pipes of the MES, one queue each.
const MES_PIPES: usize = 2;
/// Maximum number of HQDs, with that of the graphics pipe.
pub const SLOTS: usize = MEC_SLOTS + MES_PIPES + 1;

/// Index of an HQD. MEC HQDs come first: `me * 32 + pipe * 8 + queue` with MEC1 as me 0, which is
/// also the bit number in the queue mask of SET_RESOURCES. The MES HQDs follow, one per pipe, and
/// the kernel queue of the graphics pipe of gfx12, ME 0.
/// Indices above them are contexts of SDMA engines ([`super::sdma`]), which have no registers here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u8);

impl Slot {
    /// The kernel queue of the graphics pipe.
    pub const GRAPHICS: Self = Self((MEC_SLOTS + MES_PIPES) as u8);

    /// Returns the HQD of a me (0: MEC1, 2: MES), pipe and queue.
    pub fn new(me: u32, pipe: u32, queue: u32) -> Self {
        Self(match me {
            2 => MEC_SLOTS as u32 + (pipe & 1),
            me => (me & 1) * 32 + (pipe & 3) * 8 + (queue & 7),
        } as u8)
    }

    /// Returns the HQD that `GRBM_GFX_CNTL` selects, if any.
    pub fn selected(generation: Generation, sel: Selector) -> Option<Self> {
        let me = u32::from(sel.me).checked_sub(1)?;
        let (pipe, queue) = (u32::from(sel.pipe), u32::from(sel.queue));
        let there = match (generation, me) {
            (Generation::Gfx9, 0 | 1) => true,
            // One MEC of two pipes with four queues (`gfx_v12_0.c`), and the MES.
            (Generation::Gfx12, 0) => pipe < 2 && queue < 4,
            (Generation::Gfx12, 2) => pipe < 2 && queue == 0,
            _ => false,
        };
        there.then(|| Self::new(me, pipe, queue))
    }

    /// Returns whether the HQD exists on that generation.
    pub fn exists(self, generation: Generation) -> bool {
        let sel = Selector {
            me: self.me() as u8,
            pipe: self.pipe() as u8,
            queue: self.queue() as u8,
            vmid: 0,
        };
        usize::from(self.0) < SLOTS && Self::selected(generation, sel) == Some(self)
    }

    /// Returns the pipe of a MES slot.
    pub fn of_mes(self) -> Option<u32> {
        let pipe = u32::from(self.0).checked_sub(MEC_SLOTS as u32);
        pipe.filter(|pipe| *pipe < MES_PIPES as u32)
    }

    /// Returns the ME number in registers and interrupts: 0 is the graphics pipe, 1 MEC1, 3 the
    /// MES.
    pub fn me(self) -> u32 {
        if self == Self::GRAPHICS {
            return 0;
        }
        match self.of_mes() {
            Some(_) => 3,
            None => u32::from(self.0) / 32 + 1,
        }
    }

    /// Returns the pipe in the MEC or MES.
    pub fn pipe(self) -> u32 {
        if self == Self::GRAPHICS {
            return 0;
        }
        self.of_mes().unwrap_or(u32::from(self.0) / 8 % 4)
    }

    /// Returns the queue in the pipe.
    pub fn queue(self) -> u32 {
        if self == Self::GRAPHICS {
            return 0;
        }
        match self.of_mes() {
            Some(_) => 0,
            None => u32::from(self.0) % 8,
        }
    }

    /// Returns the `ring_id` of its interrupts.
    pub fn ring_id(self) -> u8 {
        use rkfd_abi::ih::cp_ring::{ME, PIPE, QUEUE};
        (ME.put(self.me()) | PIPE.put(self.pipe()) | QUEUE.put(self.queue())) as u8
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.as_rlc() {
            Some((engine, rlc)) => write!(f, "sdma{engine}.{rlc}"),
            None => write!(f, "{}.{}.{}", self.me(), self.pipe(), self.queue()),
        }
    }
}
