// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Shader interpreter for gfx942 (CDNA3, wave64) and gfx1201 (RDNA4, wave32 and wave64): one
//! engine, with a decoder and opcode tables per instruction set ([`Isa`]).
//!
//! Runs workgroups of machine code on a [`Memory`]. Queues, rings, processes and drivers are
//! outside of its scope. A dispatcher (the command processor of a GPU model) fills a [`Dispatch`]
//! and calls [`run_workgroup`] per workgroup, in any order and from any number of threads.
//! Everything that silicon would not silently accept is returned as a [`Stop`].
//!
//! # Filling a `Dispatch`
//!
//! From an AQL kernel dispatch packet, whose `kernel_object` is the address of a 64-byte amdhsa
//! kernel descriptor:
//!
//! 1. Read the 64 bytes at `kernel_object` and pass them to [`abi::KernelDescriptor::parse`].
//! 2. Fill [`abi::Launch`]: grid and workgroup size, `kernarg_address`, `group_segment_size` and
//!    `private_segment_size` of the packet, the address of the packet in the ring, the address of
//!    the queue's `amd_queue_t`, a dispatch id (index of the packet), the scratch resource
//!    descriptor of the queue and the scratch memory ([`Scratch`]).
//! 3. [`abi::Launch::dispatch`] returns the `Dispatch`. It computes the entry point (past the 256
//!    bytes that firmware skips with kernarg preload) and the user SGPRs in ABI order: private
//!    segment buffer (4), dispatch pointer (2), queue pointer (2), kernarg segment pointer (2),
//!    dispatch id (2), flat scratch init (refused on gfx942, where flat scratch is architected),
//!    private segment size (1), preloaded kernel arguments.
//! 4. For each workgroup id below [`Dispatch::workgroups`], call [`run_workgroup`].
//!
//! A dispatcher that starts from registers (PM4 `DISPATCH_DIRECT`) fills `Dispatch` directly:
//! `COMPUTE_PGM_LO/HI << 8` is `entry`, `COMPUTE_PGM_RSRC1/2/3` are `rsrc1/2/3`,
//! `COMPUTE_USER_DATA_n` are `user_sgprs`.
//!
//! # Initial wave state
//!
//! * SGPRs: the user SGPRs (`rsrc2.USER_SGPR`), then workgroup id x, y, z and the workgroup info
//!   word, each if enabled in `rsrc2`. There is no private segment wave offset: gfx942 hardware
//!   initialises `FLAT_SCRATCH` to the wave's scratch ([`Scratch::wave_base`]).
//! * v0: the work-item id, packed x\[9:0\], y\[19:10\], z\[29:20\] (gfx90a and later); components
//!   not enabled by `rsrc2.TIDIG_COMP_CNT` are zero.
//! * EXEC: one bit per work-item. Waves take 64 work-items each in x, y, z order; the last wave may
//!   be partial. A workgroup at the upper edge of a grid that is not a multiple of the workgroup
//!   size is smaller, and its work-items are packed accordingly.
//! * MODE from rsrc1 (float rounding, denormals, DX10_CLAMP, IEEE, FP16_OVFL).
//! * VGPRs: `(rsrc1.VGPRS + 1) * 8` in one file; the first `(rsrc3.ACCUM_OFFSET + 1) * 4` are
//!   architectural (v0..), the rest accumulators (a0..). SGPRs: `(rsrc1.SGPRS / 2 + 1) * 16`, at
//!   most 102, then VCC. Registers outside of that range stop the wave. Registers and LDS that
//!   silicon leaves undefined hold a fixed nonzero pattern.
//!
//! Differences of gfx1201:
//!
//! * Waves have 32 work-items with [`Dispatch::wave32`], set by the kernel descriptor.
//! * Workgroup ids are not in SGPRs: ttmp9 is x, ttmp7 y and (`rsrc2.TGID_Z_EN`) z, ttmp8\[29:25\]
//!   the index of the wave in its workgroup. All waves can read these three registers.
//! * There are always 106 SGPRs, FLAT_SCRATCH is a hardware register, and `rsrc1.VGPRS` is in units
//!   of 8 registers for wave32, 4 for wave64. There are no accumulators.
//! * MODE has no DX10_CLAMP and IEEE: waves behave as if both were set.
//!
//! # Preemption
//!
//! [`Host::poll`] is called after each slice of a wave, a few thousand instructions, and can
//! request an interruption. A [`Workgroup`] that stopped with [`Stop::Interrupted`] can be resumed.
//!
//! # Trap handlers
//!
//! With [`Dispatch::trap`] set, `s_trap`, an illegal instruction and a memory violation enter the
//! trap handler (arithmetic exceptions are not raised, independent of MODE): privileged, with
//! program counter and trap id in `ttmp0` and `ttmp1` and the cause in `TRAPSTS` (`EXCP_FLAG_PRIV`
//! on gfx1201). Messages of the handler go out by `s_sendmsg` ([`Host::message`]); it returns by
//! `s_rfe_b64`. Without a handler these events stop the workgroup. A page fault always stops it.
//! Nothing traps inside the handler: there every event stops the workgroup.
//!
//! A debugger sets how waves start ([`Host::wave_start`]). Watchpoints ([`Memory::take_watched`])
//! and single steps (`MODE.DEBUG_EN`; on gfx1201 `TRAP_CTRL.TRAP_AFTER_INST`) trap after the
//! instruction.
//!
//! [`Workgroup::save`] sets `TRAPSTS.SAVECTX` (gfx942) or `EXCP_FLAG_PRIV.SAVE_CONTEXT` (gfx1201):
//! each wave enters the handler, which stores its state at an address of [`Host::save_waves`] and
//! executes `s_endpgm_saved`.
//! [`Workgroup::restore`] starts waves in the restore routine of the handler, 4 bytes behind TBA,
//! with nothing but the address.
//!
//! A wave halted by a handler stays in place while the others continue; once none can continue, the
//! workgroup stops with [`Stop::Halted`].

pub mod abi;
mod code;
mod decode;
mod dispatch;
mod exec;
mod flight;
mod float;
mod format;
mod gws;
mod inst;
mod lanes;
mod memory;
mod op;
pub mod probe;
pub mod random;
mod stop;
mod trap;
mod wave;
mod workgroup;

pub use code::CodeCache;
pub use dispatch::{Apertures, Dispatch, Isa, SavedWave, Scratch, Trap, WaveSlots};
pub use gws::{Gws, GwsOp, GwsReply, GwsResources};
pub use memory::{Fault, FaultKind, Host, Memory, Message, Scope, WaveStart};
pub use stop::{Stop, Where};
pub use workgroup::{run_workgroup, Workgroup};
