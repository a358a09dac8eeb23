// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A shader interpreter for gfx942 (CDNA3, wave64) and gfx1201 (RDNA4, wave32 and wave64): one
//! engine, and for each instruction set ([`Isa`]) its decoder and opcode tables.
//!
//! It runs workgroups of machine code against a [`Memory`] and knows nothing of queues, packets'
//! rings, processes or drivers. A dispatcher (the command processor of a GPU model) fills a
//! [`Dispatch`] and calls [`run_workgroup`] for each workgroup, in any order, from any number of
//! threads. Whatever the program does that silicon would not silently accept comes back as a
//! [`Stop`].
//!
//! # How a dispatcher fills a `Dispatch`
//!
//! From an AQL kernel dispatch packet, whose `kernel_object` is the address of a 64-byte amdhsa
//! kernel descriptor:
//!
//! 1. Read the 64 bytes at `kernel_object` and give them to [`abi::KernelDescriptor::parse`].
//! 2. Fill [`abi::Launch`] with the packet's grid and workgroup sizes, its `kernarg_address`,
//!    `group_segment_size`, `private_segment_size`, the address of the packet itself in the ring,
//!    the address of the queue's `amd_queue_t`, a dispatch id (index of the packet), the scratch
//!    resource descriptor of the queue and where the scratch memory lies ([`Scratch`]).
//! 3. [`abi::Launch::dispatch`] makes the `Dispatch`: it works out the entry point (with the 256
//!    bytes that firmware skips when the kernel wants its kernel arguments preloaded) and the user
//!    SGPRs, in ABI order: private segment buffer (4), dispatch pointer (2), queue pointer (2),
//!    kernarg segment pointer (2), dispatch id (2), flat scratch init (refused on gfx942, whose
//!    flat scratch is architected), private segment size (1), preloaded kernel arguments.
//! 4. For each workgroup id below [`Dispatch::workgroups`], call [`run_workgroup`].
//!
//! A dispatcher that starts from registers (PM4 `DISPATCH_DIRECT`) fills `Dispatch` itself:
//! `COMPUTE_PGM_LO/HI << 8` is `entry`, `COMPUTE_PGM_RSRC1/2/3` are `rsrc1/2/3`,
//! `COMPUTE_USER_DATA_n` are `user_sgprs`.
//!
//! # What a wave starts with
//!
//! * SGPRs: the user SGPRs (`rsrc2.USER_SGPR`), then, each if `rsrc2` enables it, workgroup id x,
//!   y, z and the workgroup info word. There is no private segment wave offset: gfx942 initialises
//!   `FLAT_SCRATCH` by hardware to the wave's own scratch ([`Scratch::wave_base`]).
//! * v0: the work-item id, packed x\[9:0\], y\[19:10\], z\[29:20\] (gfx90a and later); components that
//!   `rsrc2.TIDIG_COMP_CNT` does not ask for are zero.
//! * EXEC: one bit per work-item. Waves take 64 work-items each in x, y, z order; the last may be
//!   partial. A workgroup at the upper edge of a grid that is no multiple of the workgroup size is
//!   smaller; its work-items are packed as if the workgroup had that smaller size.
//! * MODE from rsrc1 (float rounding, denormals, DX10_CLAMP, IEEE, FP16_OVFL).
//! * VGPRs: `(rsrc1.VGPRS + 1) * 8` in one file, of which the first `(rsrc3.ACCUM_OFFSET + 1) * 4`
//!   are architectural (v0..) and the rest accumulators (a0..). SGPRs: `(rsrc1.SGPRS / 2 + 1) * 16`
//!   at most 102, then VCC. Registers outside of that range stop the wave. Registers and LDS that
//!   silicon leaves undefined hold a fixed pattern that is not zero.
//!
//! On gfx1201 it is otherwise in this:
//!
//! * Waves have 32 work-items if [`Dispatch::wave32`] says so, which the kernel descriptor asks for.
//! * Workgroup ids are no SGPRs: ttmp9 has x, ttmp7 y and (`rsrc2.TGID_Z_EN`) z, ttmp8 in \[29:25\] the
//!   place of the wave in its workgroup. Every wave may read these three.
//! * There are always 106 SGPRs, FLAT_SCRATCH is a hardware register, and `rsrc1.VGPRS` counts in 8
//!   registers for wave32, in 4 for wave64. There are no accumulators.
//! * MODE has no DX10_CLAMP and IEEE: waves behave as if both were set.
//!
//! # Preemption
//!
//! [`Host::poll`] is asked after each turn of a wave, a few thousand instructions, whether to go on. A
//! [`Workgroup`] that stopped with [`Stop::Interrupted`] can be run again later.
//!
//! # Trap handlers
//!
//! With [`Dispatch::trap`] set, `s_trap`, an illegal instruction and a memory violation take the wave
//! to the handler (arithmetic exceptions are not raised, whatever MODE enables): privileged, with its
//! program counter and the trap id in `ttmp0` and `ttmp1`, the reason in `TRAPSTS` (on gfx1201
//! `EXCP_FLAG_PRIV`). What the handler says goes out by
//! `s_sendmsg` ([`Host::message`]); it goes back by `s_rfe_b64`. Without a handler these stop the
//! workgroup. A page fault always does. In a handler nothing traps: there everything stops the
//! workgroup.
//!
//! A wave that a handler halted stays where it is while the others go on; when none of them can, the
//! workgroup stops with [`Stop::Halted`].

pub mod abi;
mod code;
mod decode;
mod dispatch;
mod exec;
mod float;
mod gws;
mod inst;
mod lanes;
mod memory;
mod op;
pub mod probe;
mod stop;
mod trap;
mod wave;
mod workgroup;

pub use code::CodeCache;
pub use dispatch::{Apertures, Dispatch, Isa, Scratch, Trap};
pub use gws::{Gws, GwsAnswer, GwsOp, GwsResources};
pub use memory::{Fault, FaultKind, Host, Memory, Message};
pub use stop::{Stop, Where};
pub use workgroup::{run_workgroup, Workgroup};
