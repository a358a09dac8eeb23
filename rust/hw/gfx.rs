// SPDX-License-Identifier: GPL-2.0

//! The graphics core: HAL trait and code shared by all versions.

use kernel::{fmt, prelude::*};
use rkfd_abi::{
    bits::{hi32 as hi, lo32 as lo},
    discovery::hwid,
    regs::{name, Field, Reg, Untyped, Value},
};

use super::names::names;
use crate::asic::{
    caps::{Caps, VMIDS},
    config::{Config, Core},
    mmio::{Block, Mmio},
    xcc::{Xcc, XccList},
};

/// `KFD_DBG_TRAP_MASK_*`: exceptions in the order of EXCP_EN, start and end of a wave.
const EXCEPTIONS: u32 = 0x1ff;
const TRAP_ON_START: u32 = 1 << 30;
const TRAP_ON_END: u32 = 1 << 31;
/// Supported traps.
pub(crate) const TRAPS: u32 = EXCEPTIONS | TRAP_ON_START | TRAP_ON_END;
/// RLC_SAFE_MODE message: enter (`gfx_v9_4_3_xcc_set_safe_mode`, `gfx_v12_0_set_safe_mode`).
const SAFE_MODE_ENTER: u32 = 1;
/// Low bits of the mask of a watchpoint that the register does not have.
const WATCH_SHIFT: u32 = 7;
/// Watchpoints of a VMID.
pub(crate) const WATCHPOINTS: usize = 4;

/// A debugger's settings of the waves of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaveDebug {
    /// Exceptions with which waves start, `KFD_DBG_TRAP_MASK_*`.
    pub(crate) traps: u32,
    /// They replace those of the kernel.
    pub(crate) replace: bool,
    /// `KFD_DBG_TRAP_WAVE_LAUNCH_MODE_*`.
    pub(crate) launch_mode: u8,
    /// A memory operation completes before the next instruction.
    pub(crate) single_memop: bool,
    /// The same for arithmetic.
    pub(crate) single_alu_op: bool,
    /// Control words of the watchpoints, see [`GfxHal::watch_control`]; 0 for none.
    pub(crate) watch: [u32; WATCHPOINTS],
}

/// Registers for debugfs: name and value.
pub(crate) type RegisterDump = KVec<(&'static str, u32)>;

/// Prints registers, one per line.
pub(crate) fn write_registers(f: &mut fmt::Formatter<'_>, registers: &RegisterDump) -> fmt::Result {
    for (name, value) in registers {
        writeln!(f, "    {name} {value:08x}")?;
    }
    Ok(())
}

/// An HQD slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HqdSlot {
    /// 1 or 2.
    pub(crate) me: u32,
    /// Pipe of the MEC.
    pub(crate) pipe: u32,
    /// Queue of the pipe.
    pub(crate) queue: u32,
}

/// The graphics core: shader and HQD registers. Methods return `ENODEV` after unbind, or when the
/// XCC does not exist.
pub(crate) trait GfxHal: Sync {
    /// Waits for the RLC firmware and disables clock gating where required. `ETIMEDOUT` when it
    /// does not run.
    fn start_rlc(&self, mmio: &Mmio, xcc: Xcc) -> Result;

    /// Returns the number of XCCs in the partition of this one.
    fn partition_xccs(&self, mmio: &Mmio, xcc: Xcc) -> Result<u32>;

    /// Reads active CUs of all XCCs and GB_ADDR_CONFIG. `ENOMEM` for the CU bitmap.
    fn read_core(&self, mmio: &Mmio, xccs: &XccList, config: &Config) -> Result<Core>;

    /// Programs SH_MEM defaults of all VMIDs and starts the MECs. With a KIQ they stay halted until
    /// [`super::sched::KiqHal::start`].
    fn start(&self, mmio: &Mmio, xcc: Xcc, config: &Config) -> Result;

    /// Halts the MECs and resets their pipes: no queue runs any more, the kernel's included.
    fn halt(&self, mmio: &Mmio, xcc: Xcc) -> Result;

    /// Reads the GPU clock counter, in ticks of [`Caps::clock_hz`].
    fn clock_counter(&self, mmio: &Mmio) -> Result<u64>;

    /// Returns SH_MEM_CONFIG of a user process.
    fn sh_mem_config(&self, xnack: bool) -> Value<name::SH_MEM_CONFIG>;

    /// Returns SH_MEM_BASES of a user process, from the bases of the LDS and scratch apertures.
    fn sh_mem_bases(&self, lds_base: u64, scratch_base: u64) -> Value<name::SH_MEM_BASES>;

    /// Returns SPI_GDBG_PER_VMID_CNTL of a process: how its waves start.
    fn wave_debug(&self, debug: &WaveDebug) -> Value<name::SPI_GDBG_PER_VMID_CNTL>;

    /// Returns TCP_WATCHn_CNTL of a watchpoint for accesses of `mode`
    /// (`KFD_DBG_TRAP_ADDRESS_WATCH_MODE_*`) to addresses that differ in the bits outside of
    /// `mask` only.
    fn watch_control(&self, mask: u32, mode: u32) -> u32;

    /// Sets the address of a watchpoint on an XCC. `EINVAL` without such a watchpoint.
    fn set_watch_address(&self, mmio: &Mmio, xcc: Xcc, id: usize, va: u64) -> Result;

    /// Returns the doorbell of the active queue in an HQD slot of an XCC.
    fn doorbell_in(&self, mmio: &Mmio, xcc: Xcc, slot: HqdSlot) -> Result<Option<u32>>;

    /// Returns the compute queues with waves on an XCC with `engines` shader engines: a bit for
    /// each HQD slot of MEC 1.
    fn wave_queues(&self, mmio: &Mmio, xcc: Xcc, engines: u32) -> Result<u32>;

    /// Returns the number of waves of a compute queue on an XCC.
    fn wave_count(&self, mmio: &Mmio, xcc: Xcc, engines: u32, slot: HqdSlot) -> Result<u32>;

    /// Dumps the registers of an HQD slot. `ENOMEM` for the list.
    fn dump_hqd(&self, mmio: &Mmio, xcc: Xcc, slot: HqdSlot) -> Result<RegisterDump>;

    /// Reads the register at dword `address`; `None` if user space may not read it
    /// (AMDGPU_INFO_READ_MMR_REG).
    fn user_register(&self, mmio: &Mmio, address: u32) -> Result<Option<u32>>;
}

names! { $
    /// Registers and fields of all versions.
    struct GfxNames, gfx_names of name {
        regs {
            GRBM_GFX_CNTL { MEID, PIPEID, QUEUEID, VMID, },
            GRBM_GFX_INDEX { INSTANCE_BROADCAST_WRITES, SE_BROADCAST_WRITES, SE_INDEX, },
            CC_GC_SHADER_ARRAY_CONFIG,
            GC_USER_SHADER_ARRAY_CONFIG,
            SH_MEM_CONFIG,
            SH_MEM_BASES { PRIVATE_BASE, SHARED_BASE, },
            SPI_GDBG_PER_VMID_CNTL {
                LAUNCH_MODE,
                TRAP_EN,
                EXCP_EN,
                EXCP_REPLACE,
                TRAP_ON_START,
                TRAP_ON_END,
            },
            TCP_WATCH0_ADDR_H,
            TCP_WATCH0_ADDR_L,
            TCP_WATCH1_ADDR_H,
            TCP_WATCH1_ADDR_L,
            TCP_WATCH2_ADDR_H,
            TCP_WATCH2_ADDR_L,
            TCP_WATCH3_ADDR_H,
            TCP_WATCH3_ADDR_L,
            RLC_SAFE_MODE { CMD, MESSAGE, },
            SPI_CSQ_WF_ACTIVE_STATUS,
            SPI_CSQ_WF_ACTIVE_COUNT_0 { COUNT, },
            CPC_INT_CNTL { TIME_STAMP_INT_ENABLE, OPCODE_ERROR_INT_ENABLE, },
            CP_INT_CNTL_RING0 {
                PRIV_REG_INT_ENABLE,
                PRIV_INSTR_INT_ENABLE,
                OPCODE_ERROR_INT_ENABLE,
            },
            CP_HQD_ACTIVE { ACTIVE, },
            CP_HQD_VMID,
            CP_MQD_BASE_ADDR,
            CP_MQD_BASE_ADDR_HI,
            CP_HQD_PERSISTENT_STATE,
            CP_HQD_PQ_BASE,
            CP_HQD_PQ_BASE_HI,
            CP_HQD_PQ_CONTROL,
            CP_HQD_PQ_RPTR,
            CP_HQD_PQ_WPTR_LO,
            CP_HQD_PQ_WPTR_HI,
            CP_HQD_PQ_RPTR_REPORT_ADDR,
            CP_HQD_PQ_RPTR_REPORT_ADDR_HI,
            CP_HQD_PQ_WPTR_POLL_ADDR,
            CP_HQD_PQ_WPTR_POLL_ADDR_HI,
            CP_HQD_PQ_DOORBELL_CONTROL { DOORBELL_OFFSET, },
            CP_HQD_EOP_BASE_ADDR,
            CP_HQD_EOP_BASE_ADDR_HI,
            CP_HQD_EOP_CONTROL,
            CP_HQD_DEQUEUE_REQUEST,
            CP_HQD_CTX_SAVE_BASE_ADDR_LO,
            CP_HQD_CTX_SAVE_BASE_ADDR_HI,
        }
        fields {
            TCP_WATCH0_CNTL { MASK, MODE, VALID, },
            CP_ME1_PIPE0_INT_CNTL { PRIV_REG_INT_ENABLE, OPCODE_ERROR_INT_ENABLE, },
        }
    }
}

/// A version of the graphics core.
pub(super) trait GfxVersion: Sync {
    /// Its registers.
    const NAMES: &'static GfxNames;
    /// Numbers of the generation.
    const CAPS: &'static Caps;
    /// Registers that user space may read (AMDGPU_INFO_READ_MMR_REG).
    const USER_REGISTERS: &'static [Reg<Untyped>];
    /// Interrupt control of each pipe of MEC 1.
    const PIPE_INT_CNTL: &'static [Reg<name::CP_ME1_PIPE0_INT_CNTL>];
    /// Bits there that fences of user queues need.
    const FENCE_INTERRUPTS: &'static [Field<name::CP_ME1_PIPE0_INT_CNTL>];
    /// Fields that select a shader array.
    const ARRAY: ArrayFields;
    /// Default bases of the LDS and scratch apertures of user VMIDs: address bits 63:48.
    const DEFAULT_BASES: (u32, u32);
    /// The same of VMID 0; `None`: not written.
    const VMID0_BASES: Option<(u32, u32)>;

    /// See [`GfxHal::start_rlc`].
    fn start_rlc(b: Block<'_>) -> Result;

    /// See [`GfxHal::partition_xccs`].
    fn partition_xccs(b: Block<'_>) -> Result<u32> {
        let _ = b;
        Ok(1)
    }

    /// Returns the mask of disabled shader arrays.
    fn arrays_off(b: Block<'_>) -> Result<u32> {
        let _ = b;
        Ok(0)
    }

    /// Returns the mask of active CUs of a shader array.
    fn working_cus(off: Value<name::CC_GC_SHADER_ARRAY_CONFIG>, cu_per_sh: u32) -> u32;

    /// Returns GB_ADDR_CONFIG, the address layout of tiled memory, for user space.
    fn gb_addr_config(b: Block<'_>) -> Result<u32>;

    /// Returns the default SH_MEM_CONFIG of a VMID.
    fn default_sh_mem_config(user: bool) -> Value<name::SH_MEM_CONFIG>;

    /// Programs further registers of a VMID.
    fn start_vmid(b: Block<'_>, vmid: u32) -> Result {
        let _ = (b, vmid);
        Ok(())
    }

    /// See [`GfxHal::start`].
    fn start(mmio: &Mmio, xcc: Xcc, config: &Config) -> Result;

    /// Halts the MECs, and disables interrupts of idle engines.
    fn stop_mecs(b: Block<'_>) -> Result;

    /// See [`GfxHal::clock_counter`].
    fn clock_counter(mmio: &Mmio) -> Result<u64>;

    /// See [`GfxHal::sh_mem_config`].
    fn sh_mem_config(xnack: bool) -> Value<name::SH_MEM_CONFIG>;
}

/// Fields of GRBM_GFX_INDEX that select one shader array, or all.
pub(super) struct ArrayFields {
    /// Index of one array.
    pub(super) index: Field<name::GRBM_GFX_INDEX>,
    /// Broadcast to all arrays.
    pub(super) broadcast: Field<name::GRBM_GFX_INDEX>,
}

/// Bases of the LDS and scratch apertures of kernel VMIDs: address bits 63:48 (`gmc_v9_0.c`,
/// `gmc_v12_0.c`: `shared_aperture_start`, `private_aperture_start`).
const KERNEL_BASES: (u32, u32) = (0x2000, 0x1000);
/// CP_HQD_DEQUEUE_REQUEST: reset the queue instead of saving it (`RESET_WAVES`,
/// `kgd_gfx_v9_hqd_destroy`, `amdgpu_amdkfd_gfx_v9.c`).
pub(super) const DEQUEUE_RESET: u32 = 2;

const NO_SLOT: HqdSlot = HqdSlot {
    me: 0,
    pipe: 0,
    queue: 0,
};

/// Returns the GC registers of the first XCC of the card.
pub(super) fn block(mmio: &Mmio) -> Result<Block<'_>> {
    mmio.block(hwid::GC, 0)
}

impl GfxNames {
    /// Runs `f` with GRBM_GFX_CNTL selecting an HQD slot or VMID, under the bank lock (C:
    /// `soc15_grbm_select` under `srbm_mutex`).
    pub(super) fn with_bank<R>(
        &self,
        mmio: &Mmio,
        b: Block<'_>,
        slot: HqdSlot,
        vmid: u32,
        f: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let _guard = mmio.lock_bank();
        self.with_selected(b, slot, vmid, f)
    }

    /// As [`Self::with_bank`], but the caller holds the bank lock. Each XCC has a selection of its
    /// own, so that calls for several XCCs nest.
    pub(super) fn with_selected<R>(
        &self,
        b: Block<'_>,
        slot: HqdSlot,
        vmid: u32,
        f: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        b.wr(
            self.GRBM_GFX_CNTL,
            self.GRBM_GFX_CNTL__MEID.put(slot.me)
                | self.GRBM_GFX_CNTL__PIPEID.put(slot.pipe)
                | self.GRBM_GFX_CNTL__QUEUEID.put(slot.queue)
                | self.GRBM_GFX_CNTL__VMID.put(vmid),
        )?;
        let result = f();
        b.wr(self.GRBM_GFX_CNTL, 0)?;
        result
    }

    /// Runs `f` in RLC safe mode: no clock or power gating meanwhile. Also when the RLC does not
    /// respond, with a warning: as in the C driver, that is no error.
    pub(super) fn in_safe_mode<R>(&self, b: Block<'_>, f: impl FnOnce() -> Result<R>) -> Result<R> {
        b.wr(
            self.RLC_SAFE_MODE,
            self.RLC_SAFE_MODE__CMD.put(1) | self.RLC_SAFE_MODE__MESSAGE.put(SAFE_MODE_ENTER),
        )?;
        let entered = b.poll(self.RLC_SAFE_MODE, 0, |v| {
            !self.RLC_SAFE_MODE__CMD.is_set(v)
        });
        match entered {
            Err(e) if e == ETIMEDOUT => dev_warn!(b.dev(), "the RLC does not enter safe mode\n"),
            other => drop(other?),
        }
        let result = f();
        b.wr(self.RLC_SAFE_MODE, self.RLC_SAFE_MODE__CMD.put(1))?;
        result
    }

    /// Selects a shader engine and a shader array of it, or all, by GRBM_GFX_INDEX. The caller
    /// holds the bank lock.
    fn select_array<T: GfxVersion>(&self, b: Block<'_>, array: Option<(u32, u32)>) -> Result {
        let selected = match array {
            Some((se, sh)) => self.GRBM_GFX_INDEX__SE_INDEX.put(se) | T::ARRAY.index.put(sh),
            None => self.GRBM_GFX_INDEX__SE_BROADCAST_WRITES.put(1) | T::ARRAY.broadcast.put(1),
        };
        b.wr(
            self.GRBM_GFX_INDEX,
            self.GRBM_GFX_INDEX__INSTANCE_BROADCAST_WRITES.put(1) | selected,
        )
    }

    fn bases(&self, (shared, private): (u32, u32)) -> Value<name::SH_MEM_BASES> {
        self.SH_MEM_BASES__SHARED_BASE.put(shared) | self.SH_MEM_BASES__PRIVATE_BASE.put(private)
    }

    /// Dumps a queue slot's registers. Leaves room for `extra` further entries.
    pub(super) fn dump_slot(
        &self,
        mmio: &Mmio,
        b: Block<'_>,
        slot: HqdSlot,
        extra: usize,
    ) -> Result<RegisterDump> {
        let regs = self.dumped();
        let mut out = RegisterDump::with_capacity(regs.len() + extra, GFP_KERNEL)?;
        self.with_bank(mmio, b, slot, 0, || {
            for reg in regs {
                // Capacity is reserved before the lock: no allocation under it.
                out.push_within_capacity((reg.name, b.rd(reg)?.raw()))?;
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Returns the registers of [`Self::dump_slot`].
    fn dumped(&self) -> [Reg<Untyped>; 22] {
        [
            self.CP_HQD_ACTIVE.untyped(),
            self.CP_HQD_VMID.untyped(),
            self.CP_MQD_BASE_ADDR.untyped(),
            self.CP_MQD_BASE_ADDR_HI.untyped(),
            self.CP_HQD_PERSISTENT_STATE.untyped(),
            self.CP_HQD_PQ_BASE.untyped(),
            self.CP_HQD_PQ_BASE_HI.untyped(),
            self.CP_HQD_PQ_CONTROL.untyped(),
            self.CP_HQD_PQ_RPTR.untyped(),
            self.CP_HQD_PQ_WPTR_LO.untyped(),
            self.CP_HQD_PQ_WPTR_HI.untyped(),
            self.CP_HQD_PQ_RPTR_REPORT_ADDR.untyped(),
            self.CP_HQD_PQ_RPTR_REPORT_ADDR_HI.untyped(),
            self.CP_HQD_PQ_WPTR_POLL_ADDR.untyped(),
            self.CP_HQD_PQ_WPTR_POLL_ADDR_HI.untyped(),
            self.CP_HQD_PQ_DOORBELL_CONTROL.untyped(),
            self.CP_HQD_EOP_BASE_ADDR.untyped(),
            self.CP_HQD_EOP_BASE_ADDR_HI.untyped(),
            self.CP_HQD_EOP_CONTROL.untyped(),
            self.CP_HQD_DEQUEUE_REQUEST.untyped(),
            self.CP_HQD_CTX_SAVE_BASE_ADDR_LO.untyped(),
            self.CP_HQD_CTX_SAVE_BASE_ADDR_HI.untyped(),
        ]
    }
}

/// Programs SH_MEM defaults of all VMIDs; MAP_PROCESS sets those of processes again.
pub(super) fn start_vmids<T: GfxVersion>(mmio: &Mmio, b: Block<'_>) -> Result {
    let n = T::NAMES;
    for vmid in 0..VMIDS {
        let user = vmid >= T::CAPS.first_user_vmid;
        let bases = match vmid {
            0 => T::VMID0_BASES,
            _ if user => Some(T::DEFAULT_BASES),
            _ => Some(KERNEL_BASES),
        };
        n.with_bank(mmio, b, NO_SLOT, vmid, || {
            b.wr(n.SH_MEM_CONFIG, T::default_sh_mem_config(user))?;
            if let Some(bases) = bases {
                b.wr(n.SH_MEM_BASES, n.bases(bases))?;
            }
            if user {
                let trap = n.SPI_GDBG_PER_VMID_CNTL__TRAP_EN;
                b.set(n.SPI_GDBG_PER_VMID_CNTL, &[(trap, 1)])?;
            }
            Ok(())
        })?;
        T::start_vmid(b, vmid)?;
    }
    Ok(())
}

/// Enables or disables interrupts for privileged registers, privileged instructions, bad opcodes
/// (`set_priv_reg_fault_state`, `set_priv_inst_fault_state`, `set_bad_op_fault_state`,
/// `gfx_v9_4_3.c` and `gfx_v12_0.c`) and fences of user queues
/// (`gfx_v12_0_set_compute_eop_interrupt_state`).
fn set_interrupts<T: GfxVersion>(b: Block<'_>, on: bool) -> Result {
    let n = T::NAMES;
    let on = u32::from(on);
    b.set(
        n.CP_INT_CNTL_RING0,
        &[
            (n.CP_INT_CNTL_RING0__PRIV_REG_INT_ENABLE, on),
            (n.CP_INT_CNTL_RING0__PRIV_INSTR_INT_ENABLE, on),
            (n.CP_INT_CNTL_RING0__OPCODE_ERROR_INT_ENABLE, on),
        ],
    )?;
    let fields = [
        (n.CP_ME1_PIPE0_INT_CNTL__PRIV_REG_INT_ENABLE, on),
        (n.CP_ME1_PIPE0_INT_CNTL__OPCODE_ERROR_INT_ENABLE, on),
    ];
    T::PIPE_INT_CNTL.iter().try_for_each(|reg| {
        let value = b.rd(*reg)?.with(&fields);
        let set = |value: Value<_>, field: &Field<_>| value.set(*field, on);
        b.wr(*reg, T::FENCE_INTERRUPTS.iter().fold(value, set))
    })
}

/// Enables time stamp and opcode error interrupts of the pipes of MEC 1, and those of
/// [`set_interrupts`].
pub(super) fn start_interrupts<T: GfxVersion>(mmio: &Mmio, b: Block<'_>) -> Result {
    let n = T::NAMES;
    for pipe in 0..T::CAPS.pipes_per_mec {
        let slot = HqdSlot {
            me: 1,
            pipe,
            queue: 0,
        };
        n.with_bank(mmio, b, slot, 0, || {
            b.wr(
                n.CPC_INT_CNTL,
                n.CPC_INT_CNTL__TIME_STAMP_INT_ENABLE.put(1)
                    | n.CPC_INT_CNTL__OPCODE_ERROR_INT_ENABLE.put(1),
            )
        })?;
    }
    set_interrupts::<T>(b, true)
}

/// See [`GfxHal::halt`].
pub(super) fn halt<T: GfxVersion>(b: Block<'_>) -> Result {
    set_interrupts::<T>(b, false)?;
    T::stop_mecs(b)
}

impl<T: GfxVersion> GfxHal for T {
    fn start_rlc(&self, mmio: &Mmio, xcc: Xcc) -> Result {
        T::start_rlc(mmio.xcc(xcc)?)
    }

    fn partition_xccs(&self, mmio: &Mmio, xcc: Xcc) -> Result<u32> {
        T::partition_xccs(mmio.xcc(xcc)?)
    }

    fn read_core(&self, mmio: &Mmio, xccs: &XccList, config: &Config) -> Result<Core> {
        let n = T::NAMES;
        let arrays = xccs.count() * config.num_se * config.sh_per_se;
        let mut core = Core {
            cu_total: 0,
            cu_bitmap: KVec::with_capacity(usize::try_from(arrays)?, GFP_KERNEL)?,
            gb_addr_config: T::gb_addr_config(block(mmio)?)?,
        };
        for xcc in xccs.iter() {
            let b = mmio.xcc(*xcc)?;
            let arrays_off = T::arrays_off(b)?;
            let _guard = mmio.lock_bank();
            for se in 0..config.num_se {
                for sh in 0..config.sh_per_se {
                    n.select_array::<T>(b, Some((se, sh)))?;
                    let off =
                        b.rd(n.CC_GC_SHADER_ARRAY_CONFIG)? | b.rd(n.GC_USER_SHADER_ARRAY_CONFIG)?;
                    let on = if arrays_off >> (se * config.sh_per_se + sh) & 1 != 0 {
                        0
                    } else {
                        T::working_cus(off, config.cu_per_sh)
                    };
                    core.cu_total += on.count_ones();
                    core.cu_bitmap.push_within_capacity(on)?;
                }
            }
            n.select_array::<T>(b, None)?;
        }
        Ok(core)
    }

    fn start(&self, mmio: &Mmio, xcc: Xcc, config: &Config) -> Result {
        T::start(mmio, xcc, config)
    }

    fn halt(&self, mmio: &Mmio, xcc: Xcc) -> Result {
        halt::<T>(mmio.xcc(xcc)?)
    }

    fn clock_counter(&self, mmio: &Mmio) -> Result<u64> {
        T::clock_counter(mmio)
    }

    fn sh_mem_config(&self, xnack: bool) -> Value<name::SH_MEM_CONFIG> {
        T::sh_mem_config(xnack)
    }

    fn sh_mem_bases(&self, lds_base: u64, scratch_base: u64) -> Value<name::SH_MEM_BASES> {
        T::NAMES.bases((lo(lds_base >> 48), lo(scratch_base >> 48)))
    }

    fn wave_debug(&self, debug: &WaveDebug) -> Value<name::SPI_GDBG_PER_VMID_CNTL> {
        let n = T::NAMES;
        let has = |trap: u32| u32::from(debug.traps & trap != 0);
        Value::of(&[
            // Waves enter the trap handler only with TRAP_EN of their VMID.
            (n.SPI_GDBG_PER_VMID_CNTL__TRAP_EN, 1),
            (n.SPI_GDBG_PER_VMID_CNTL__EXCP_EN, debug.traps & EXCEPTIONS),
            (n.SPI_GDBG_PER_VMID_CNTL__EXCP_REPLACE, debug.replace.into()),
            (n.SPI_GDBG_PER_VMID_CNTL__TRAP_ON_START, has(TRAP_ON_START)),
            (n.SPI_GDBG_PER_VMID_CNTL__TRAP_ON_END, has(TRAP_ON_END)),
            (
                n.SPI_GDBG_PER_VMID_CNTL__LAUNCH_MODE,
                debug.launch_mode.into(),
            ),
        ])
    }

    fn watch_control(&self, mask: u32, mode: u32) -> u32 {
        let n = T::NAMES;
        let fits = |field: Field<name::TCP_WATCH0_CNTL>, value| value & field.max();
        Value::of(&[
            (n.TCP_WATCH0_CNTL__VALID, 1),
            (n.TCP_WATCH0_CNTL__MODE, fits(n.TCP_WATCH0_CNTL__MODE, mode)),
            (
                n.TCP_WATCH0_CNTL__MASK,
                fits(n.TCP_WATCH0_CNTL__MASK, mask >> WATCH_SHIFT),
            ),
        ])
        .raw()
    }

    fn set_watch_address(&self, mmio: &Mmio, xcc: Xcc, id: usize, va: u64) -> Result {
        let n = T::NAMES;
        let all: [(Reg<Untyped>, Reg<Untyped>); WATCHPOINTS] = [
            (n.TCP_WATCH0_ADDR_L.untyped(), n.TCP_WATCH0_ADDR_H.untyped()),
            (n.TCP_WATCH1_ADDR_L.untyped(), n.TCP_WATCH1_ADDR_H.untyped()),
            (n.TCP_WATCH2_ADDR_L.untyped(), n.TCP_WATCH2_ADDR_H.untyped()),
            (n.TCP_WATCH3_ADDR_L.untyped(), n.TCP_WATCH3_ADDR_H.untyped()),
        ];
        let (low, high) = *all.get(id).ok_or(EINVAL)?;
        let b = mmio.xcc(xcc)?;
        b.wr(high, hi(va) & 0xffff)?;
        b.wr(low, lo(va))
    }

    fn doorbell_in(&self, mmio: &Mmio, xcc: Xcc, slot: HqdSlot) -> Result<Option<u32>> {
        let (n, b) = (T::NAMES, mmio.xcc(xcc)?);
        n.with_bank(mmio, b, slot, 0, || {
            if !n.CP_HQD_ACTIVE__ACTIVE.is_set(b.rd(n.CP_HQD_ACTIVE)?) {
                return Ok(None);
            }
            let control = b.rd(n.CP_HQD_PQ_DOORBELL_CONTROL)?;
            Ok(Some(
                n.CP_HQD_PQ_DOORBELL_CONTROL__DOORBELL_OFFSET.get(control),
            ))
        })
    }

    fn wave_queues(&self, mmio: &Mmio, xcc: Xcc, engines: u32) -> Result<u32> {
        let (n, b) = (T::NAMES, mmio.xcc(xcc)?);
        // C selects it, too (`kgd_gfx_v9_get_cu_occupancy`).
        let slot = HqdSlot {
            me: 1,
            pipe: 0,
            queue: 0,
        };
        n.with_bank(mmio, b, slot, 0, || {
            let mut queues = 0;
            for se in 0..engines {
                n.select_array::<T>(b, Some((se, 0)))?;
                queues |= b.rd(n.SPI_CSQ_WF_ACTIVE_STATUS)?.raw();
            }
            n.select_array::<T>(b, None)?;
            Ok(queues)
        })
    }

    fn wave_count(&self, mmio: &Mmio, xcc: Xcc, engines: u32, slot: HqdSlot) -> Result<u32> {
        let (n, b) = (T::NAMES, mmio.xcc(xcc)?);
        n.with_bank(mmio, b, slot, 0, || {
            let mut waves = 0;
            for se in 0..engines {
                n.select_array::<T>(b, Some((se, 0)))?;
                let count = b.rd_at(n.SPI_CSQ_WF_ACTIVE_COUNT_0, slot.queue)?;
                waves += n.SPI_CSQ_WF_ACTIVE_COUNT_0__COUNT.get(count);
            }
            n.select_array::<T>(b, None)?;
            Ok(waves)
        })
    }

    fn dump_hqd(&self, mmio: &Mmio, xcc: Xcc, slot: HqdSlot) -> Result<RegisterDump> {
        T::NAMES.dump_slot(mmio, mmio.xcc(xcc)?, slot, 0)
    }

    fn user_register(&self, mmio: &Mmio, address: u32) -> Result<Option<u32>> {
        let b = block(mmio)?;
        for reg in T::USER_REGISTERS {
            if mmio.user_address(*reg)? == address {
                return b.rd(*reg).map(|v| Some(v.raw()));
            }
        }
        Ok(None)
    }
}
