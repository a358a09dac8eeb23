// SPDX-License-Identifier: GPL-2.0

//! Register access: BAR 5, the index/data window for registers outside of it, and base addresses
//! from IP discovery.
//!
//! Nothing here depends on the registers of an engine. Every access takes the revocable guard of
//! the BAR, so that code that outlives the binding gets `ENODEV` and never a stale address, and
//! nothing accesses registers during a card reset, see [`Mmio::close`].

use core::ops::Deref;

use kernel::{
    device,
    devres::DevresLt,
    io::{poll::read_poll_timeout, Io},
    new_mutex,
    new_spinlock,
    pci,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Relaxed, Release},
        lock::mutex::MutexGuard,
        rcu, Arc, Mutex, SpinLock,
    },
    time::Delta, //
};

use rkfd_abi::{
    discovery::hwid,
    regs::{Field, Reg, Value},
};

pub(crate) use super::instance::{Instance, Version};
use super::xcc::{Xcc, XccList};

/// Timeout of register polling. The C driver reads 100,000 times (`usec_timeout`), with a delay of
/// 1 us, which takes 100 ms and the time of the reads, some us each.
pub(crate) const POLL_TIMEOUT_US: i64 = 300_000;

/// Logical to physical instance numbers of a card (C: `adev->ip_map`, `amdgpu_ip.c`).
///
/// The driver counts the instances that work: logical numbers have no holes. Hardware, its firmware
/// and interrupt entries count all instances on the package: physical numbers. The two differ for
/// GC and SDMA0 when instances are harvested, and are the same for all other blocks and cards.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InstanceMap {
    /// Physical GC instances that work, a bit each.
    gc: u64,
    /// Physical SDMA0 instances that work, a bit each.
    sdma: u64,
}

impl InstanceMap {
    /// Returns the map of a card with these instances.
    fn new(units: &[Instance]) -> Self {
        let mut map = Self::default();
        for unit in units {
            let bit = 1u64.checked_shl(u32::from(unit.inst)).unwrap_or(0);
            match unit.hw_id {
                hwid::GC => map.gc |= bit,
                hwid::SDMA0 => map.sdma |= bit,
                _ => {}
            }
        }
        map
    }

    /// Returns all XCCs of the card. Errors as [`XccList::new`].
    pub(crate) fn xccs(&self) -> Result<XccList> {
        XccList::new(self.gc)
    }

    /// The mask of physical instances of a block whose instances are renumbered.
    fn mask(&self, hw_id: u16) -> Option<u64> {
        match hw_id {
            hwid::GC => Some(self.gc),
            hwid::SDMA0 => Some(self.sdma),
            _ => None,
        }
    }

    /// Returns the physical number of logical instance `logical` of block `hw_id` (C: `GET_INST`).
    /// `ENODEV` when there is no such instance.
    pub(crate) fn physical(&self, hw_id: u16, logical: u8) -> Result<u8> {
        let Some(mut mask) = self.mask(hw_id) else {
            return Ok(logical);
        };
        for _ in 0..logical {
            mask &= mask.wrapping_sub(1);
        }
        match mask {
            0 => Err(ENODEV),
            mask => Ok(u8::try_from(mask.trailing_zeros())?),
        }
    }

    /// Returns the logical number of physical instance `physical` of block `hw_id`. `ENODEV` when
    /// that instance is harvested.
    pub(crate) fn logical(&self, hw_id: u16, physical: u8) -> Result<u8> {
        let Some(mask) = self.mask(hw_id) else {
            return Ok(physical);
        };
        let bit = 1u64.checked_shl(u32::from(physical)).ok_or(ENODEV)?;
        if mask & bit == 0 {
            return Err(ENODEV);
        }
        Ok(u8::try_from((mask & (bit - 1)).count_ones())?)
    }
}

/// Returns the high half of the SMN address of a register on AID `aid` (C:
/// `amdgpu_reg_smn_v1_0_get_base`): bits 33:32 are the AID if bit 34 is set.
const fn smn_high(aid: u8) -> u32 {
    match aid {
        0 => 0,
        aid => aid as u32 & 3 | 1 << 2,
    }
}

/// The index/data registers through which registers beyond the BAR are accessed: dword addresses.
pub(crate) struct Window {
    /// Low half of the address of a register, in bytes.
    pub(crate) index: u32,
    /// High half; `None` on cards with one AID.
    pub(crate) index_high: Option<u32>,
    /// The register.
    pub(crate) data: u32,
}

/// Register access to one GPU.
#[derive(Clone)]
pub(crate) struct Mmio {
    registers: Arc<Registers>,
    /// Accesses succeed while the registers are closed: for the reset of the card.
    ignores_close: bool,
}

/// State that all clones of an [`Mmio`] share.
#[pin_data]
struct Registers {
    bar: DevresLt<pci::Bar<'static>>,
    size: usize,
    units: KVec<Instance>,
    /// GC instance 0 of the package, which may be harvested.
    gc0: Instance,
    map: InstanceMap,
    /// Access beyond the BAR.
    #[pin]
    window: SpinLock<Window>,
    /// Guards RLC safe mode, see [`Mmio::lock_safe_mode`].
    #[pin]
    safe_mode: Mutex<()>,
    /// Guards the selection of banked registers, see [`Mmio::lock_bank`].
    #[pin]
    bank: Mutex<()>,
    /// Guards the registers of the SMU mailbox, see [`Mmio::lock_mailbox`].
    #[pin]
    mailbox: Mutex<bool>,
    /// The card is about to be reset, see [`Mmio::close`]. Read in the RCU section of the BAR.
    closed: Atomic<bool>,
    /// The link to the card does not work, see [`Mmio::freeze`]. Read as `closed`.
    frozen: Atomic<bool>,
}

/// The registers of one instance of an IP block.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    mmio: &'a Mmio,
    unit: &'a Instance,
    /// AID, for blocks that have the same addresses on all AIDs.
    aid: u8,
}

/// Direct access by absolute address, for registers that are read before discovery.
pub(crate) struct EarlyMmio {
    bar: DevresLt<pci::Bar<'static>>,
    size: usize,
}

impl EarlyMmio {
    /// Wraps a mapped register BAR.
    pub(crate) fn new(bar: pci::Bar<'_>) -> Result<Self> {
        let size = (&bar).size();
        Ok(Self {
            bar: bar.into_devres()?,
            size,
        })
    }

    /// Reads the register with absolute dword address `reg`.
    pub(crate) fn read(&self, reg: u32) -> Result<u32> {
        let bar = self.bar.try_access().ok_or(ENODEV)?;
        (&*bar).try_read32(reg as usize * 4)
    }

    /// Adds the instances that discovery found, and GC instance 0, which may be harvested. `window`
    /// returns the window of the bus interface. `ENODEV` without one, else its error.
    pub(crate) fn into_mmio(
        self,
        units: KVec<Instance>,
        gc0: Instance,
        window: impl FnOnce(&Instance) -> Result<Window>,
    ) -> Result<Mmio> {
        let map = InstanceMap::new(&units);
        let window = window(find(&units, hwid::NBIF, 0)?)?;
        let registers = try_pin_init!(Registers {
            bar: self.bar,
            size: self.size,
            units,
            gc0,
            map,
            window <- new_spinlock!(window),
            safe_mode <- new_mutex!(()),
            bank <- new_mutex!(()),
            mailbox <- new_mutex!(false, "rkfd_smu_mailbox"),
            closed: Atomic::new(false),
            frozen: Atomic::new(false),
        });
        Ok(Mmio {
            registers: Arc::pin_init(registers, GFP_KERNEL)?,
            ignores_close: false,
        })
    }
}

impl Mmio {
    /// Returns the device, for messages.
    pub(crate) fn dev(&self) -> &device::Device {
        self.registers.bar.device()
    }

    /// Returns access to the same registers that [`Mmio::close`] does not end.
    pub(crate) fn for_reset(&self) -> Self {
        Self {
            registers: self.registers.clone(),
            ignores_close: true,
        }
    }

    /// Ends accesses until [`Mmio::open`]: they fail with `EIO`, also in the middle of a sequence.
    /// On return no access is in progress, and no bank is selected.
    pub(crate) fn close(&self) {
        self.registers.closed.store(true, Relaxed);
        rcu::synchronize_rcu();
        // Waits for the end of a sequence that has selected a bank: the reset changes the
        // selection.
        drop(self.lock_bank());
    }

    /// Ends [`Mmio::close`].
    pub(crate) fn open(&self) {
        self.registers.closed.store(false, Release);
    }

    /// Ends all accesses until [`Mmio::thaw`], also those for a reset: they fail with `EIO`, also
    /// in the middle of a sequence. On return no access is in progress.
    pub(crate) fn freeze(&self) {
        self.registers.frozen.store(true, Relaxed);
        rcu::synchronize_rcu();
    }

    /// Ends [`Mmio::freeze`].
    pub(crate) fn thaw(&self) {
        self.registers.frozen.store(false, Release);
    }

    /// Returns whether accesses fail with `EIO`, see [`Mmio::close`] and [`Mmio::freeze`].
    pub(crate) fn is_closed(&self) -> bool {
        let registers = &self.registers;
        registers.frozen.load(Acquire) || !self.ignores_close && registers.closed.load(Acquire)
    }

    /// Returns the BAR. `ENODEV` after unbind, `EIO` after [`Mmio::close`] or [`Mmio::freeze`].
    fn bar<'a>(&'a self) -> Result<impl Deref<Target = pci::Bar<'a>> + 'a> {
        let bar = self.registers.bar.try_access().ok_or(ENODEV)?;
        if self.is_closed() {
            return Err(EIO);
        }
        Ok(bar)
    }

    /// Returns the map between logical and physical instance numbers.
    pub(crate) fn instances(&self) -> &InstanceMap {
        &self.registers.map
    }

    /// Returns the registers of logical instance `inst` of block `hw_id`. `ENODEV` when the card
    /// has no such instance.
    pub(crate) fn block(&self, hw_id: u16, inst: u8) -> Result<Block<'_>> {
        self.physical_block(hw_id, self.registers.map.physical(hw_id, inst)?)
    }

    /// Returns the dword address by which user space names a GC register: that in instance 0 of the
    /// package. Errors as [`Block::address`].
    pub(crate) fn user_address<R>(&self, reg: Reg<R>) -> Result<u32> {
        self.registers.gc0.address(reg, 0)
    }

    /// Returns the GC registers of an XCC. `ENODEV` when the card has no such XCC.
    pub(crate) fn xcc(&self, xcc: Xcc) -> Result<Block<'_>> {
        self.physical_block(hwid::GC, xcc.physical)
    }

    fn physical_block(&self, hw_id: u16, inst: u8) -> Result<Block<'_>> {
        Ok(Block {
            mmio: self,
            unit: find(&self.registers.units, hw_id, inst)?,
            aid: 0,
        })
    }

    /// Returns all instances of block `hw_id`, in the order of the discovery table, which is that
    /// of their numbers.
    pub(crate) fn blocks(&self, hw_id: u16) -> impl Iterator<Item = Block<'_>> {
        self.registers
            .units
            .iter()
            .filter(move |u| u.hw_id == hw_id)
            .map(move |unit| Block {
                mmio: self,
                unit,
                aid: 0,
            })
    }

    /// Keeps others from sending a message to the SMU until the response of this one was read. The
    /// value is whether the last message has no response yet.
    pub(crate) fn lock_mailbox(&self) -> MutexGuard<'_, bool> {
        self.registers.mailbox.lock()
    }

    /// Keeps others from leaving RLC safe mode, where several resets may be in it.
    pub(crate) fn lock_safe_mode(&self) -> MutexGuard<'_, ()> {
        self.registers.safe_mode.lock()
    }

    /// Keeps others from changing which bank a banked register shows.
    pub(crate) fn lock_bank(&self) -> MutexGuard<'_, ()> {
        self.registers.bank.lock()
    }

    /// Reads the register with absolute dword address `reg`.
    pub(crate) fn read(&self, reg: u32) -> Result<u32> {
        self.read_on(0, reg)
    }

    /// Reads the register with absolute dword address `reg` on AID `aid`.
    fn read_on(&self, aid: u8, reg: u32) -> Result<u32> {
        let at = reg as usize * 4;
        let bar = self.bar()?;
        if aid == 0 && at < self.registers.size {
            return (&*bar).try_read32(at);
        }
        let window = self.registers.window.lock();
        window.select(&bar, aid, reg)?;
        let value = (&*bar).try_read32(window.data as usize * 4);
        window.deselect(&bar, aid)?;
        value
    }

    /// Writes the register with absolute dword address `reg` on AID `aid`.
    fn write_on(&self, aid: u8, reg: u32, value: u32) -> Result {
        let at = reg as usize * 4;
        let bar = self.bar()?;
        if aid == 0 && at < self.registers.size {
            return (&*bar).try_write32(value, at);
        }
        let window = self.registers.window.lock();
        window.select(&bar, aid, reg)?;
        let data = window.data as usize * 4;
        let written = (&*bar).try_write32(value, data);
        // Reads back: the write has reached the register before the next selection.
        let written = written.and_then(|()| (&*bar).try_read32(data));
        window.deselect(&bar, aid)?;
        written.map(|_| ())
    }

    /// Writes the register at `byte` of the BAR, which need not belong to a block, and reads the
    /// one with absolute dword address `reg`, which is in the BAR.
    pub(crate) fn write_then_read(&self, byte: u32, value: u32, reg: u32) -> Result<u32> {
        let bar = self.bar()?;
        (&*bar).try_write32(value, byte as usize)?;
        (&*bar).try_read32(reg as usize * 4)
    }
}

/// Writes an index register of the window. The read back orders it before the data register.
fn index(bar: &pci::Bar<'_>, reg: u32, value: u32) -> Result {
    let at = reg as usize * 4;
    bar.try_write32(value, at)?;
    bar.try_read32(at)?;
    Ok(())
}

/// Returns instance `inst` of block `hw_id`. `ENODEV` if there is none.
fn find(units: &[Instance], hw_id: u16, inst: u8) -> Result<&Instance> {
    // Of entries with the same number the last, as in `amdgpu_discovery_reg_base_init`.
    let unit = units.iter().rfind(|u| u.hw_id == hw_id && u.inst == inst);
    unit.ok_or(ENODEV)
}

impl Window {
    /// Points the window at a register of an AID, until [`Self::deselect`].
    fn select(&self, bar: &pci::Bar<'_>, aid: u8, reg: u32) -> Result {
        index(bar, self.index, reg << 2)?;
        match smn_high(aid) {
            0 => Ok(()),
            high => index(bar, self.index_high.ok_or(ENODEV)?, high),
        }
    }

    /// Points the window at AID 0 again.
    fn deselect(&self, bar: &pci::Bar<'_>, aid: u8) -> Result {
        match smn_high(aid) {
            0 => Ok(()),
            _ => index(bar, self.index_high.ok_or(ENODEV)?, 0),
        }
    }
}

impl<'a> Block<'a> {
    /// Returns the device, for messages.
    pub(crate) fn dev(self) -> &'a device::Device {
        self.mmio.dev()
    }

    /// Returns the version of the instance.
    pub(crate) fn version(self) -> Version {
        self.unit.version
    }

    /// Returns the same registers on AID `aid`, for a block that has the same addresses on all
    /// AIDs. Accesses of AIDs other than 0 go through the window.
    pub(crate) fn on_aid(self, aid: u8) -> Self {
        Self { aid, ..self }
    }

    /// Returns the absolute dword address of `reg`, `index` dwords further on.
    ///
    /// `ENXIO` when discovery gave the instance no base address for the register's segment,
    /// `EINVAL` when the address overflows.
    pub(crate) fn address<R>(self, reg: Reg<R>, index: u32) -> Result<u32> {
        self.unit.address(reg, index)
    }

    /// Reads a register. `ENODEV` after unbind, `EIO` after [`Mmio::close`], else as
    /// [`Block::address`].
    pub(crate) fn rd<R>(self, reg: Reg<R>) -> Result<Value<R>> {
        self.rd_at(reg, 0)
    }

    /// Writes a register. Errors as [`Block::rd`].
    pub(crate) fn wr<R>(self, reg: Reg<R>, value: impl Into<Value<R>>) -> Result {
        self.wr_at(reg, 0, value)
    }

    /// Reads element `index` of a register array with a stride of one dword. Errors as
    /// [`Block::rd`].
    pub(crate) fn rd_at<R>(self, reg: Reg<R>, index: u32) -> Result<Value<R>> {
        self.mmio
            .read_on(self.aid, self.address(reg, index)?)
            .map(Value::new)
    }

    /// Writes element `index` of a register array with a stride of one dword. Errors as
    /// [`Block::rd`].
    pub(crate) fn wr_at<R>(self, reg: Reg<R>, index: u32, value: impl Into<Value<R>>) -> Result {
        self.mmio
            .write_on(self.aid, self.address(reg, index)?, value.into().raw())
    }

    /// Reads a register, replaces the given fields and writes it back. Errors as [`Block::rd`].
    pub(crate) fn set<R>(self, reg: Reg<R>, fields: &[(Field<R>, u32)]) -> Result {
        self.wr(reg, self.rd(reg)?.with(fields))
    }

    /// Polls element `index` of a register array every microsecond until `done` accepts its value,
    /// which is returned. `ETIMEDOUT` after [`POLL_TIMEOUT_US`], else as [`Block::rd`].
    pub(crate) fn poll<R>(
        self,
        reg: Reg<R>,
        index: u32,
        done: impl Fn(Value<R>) -> bool,
    ) -> Result<Value<R>> {
        read_poll_timeout(
            || self.rd_at(reg, index),
            |v| done(*v),
            Delta::from_micros(1),
            Delta::from_micros(POLL_TIMEOUT_US),
        )
    }
}
