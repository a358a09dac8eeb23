// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The vfio-user server: regions, interrupts and guest memory.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use vfio_bindings::bindings::vfio::{
    vfio_region_info, vfio_region_sparse_mmap_area, VFIO_IRQ_INFO_EVENTFD,
    VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR2_REGION_INDEX,
    VFIO_PCI_BAR5_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
    VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_PCI_ROM_REGION_INDEX, VFIO_REGION_INFO_FLAG_MMAP,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
};
use vfio_user::{
    DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion, SparseArea,
};

use crate::event;
use crate::gpu::{Gpu, Reset, DOORBELL_BAR};
use crate::pci::{expansion_rom, frame_buffer_bar, Config, Effect, CONFIG_SIZE, MSIX_VECTORS};
use crate::posted::Posted;
use crate::strict;

/// State of one connection.
pub struct Device {
    gpu: Arc<Gpu>,
    bars: Arc<Bars>,
    config: Config,
    posted: Posted,
}

/// Listens on a socket at `path`. A stale socket file is replaced.
pub fn listen(path: &Path, gpu: &Gpu) -> io::Result<Server> {
    if path.exists() {
        match UnixStream::connect(path) {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    format!("{} exists and is in use", path.display()),
                ))
            }
        }
    }
    Server::new(path, true, irqs(), regions(gpu)).map_err(io::Error::other)
}

fn irqs() -> Vec<IrqInfo> {
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| IrqInfo {
            index,
            flags: VFIO_IRQ_INFO_EVENTFD,
            count: match index {
                VFIO_PCI_MSIX_IRQ_INDEX => MSIX_VECTORS.into(),
                _ => 0,
            },
        })
        .collect()
}

/// Returns the parts of the frame buffer BAR that the guest maps. Other accesses reach the model:
/// to bad pages, to the regions of the boot firmware, from which the driver reads the discovery
/// table, and beyond VRAM.
fn mapped_areas(gpu: &Gpu, size: u64) -> Vec<SparseArea> {
    let [last, second] = gpu.gmc.firmware_regions().clone();
    let end = size.min(last.start);
    let bad = gpu.gmc.bad_pages().range(..end);
    let mut holes: Vec<_> = bad.map(|page| *page..page + 0x1000).collect();
    holes.extend(Some(second).filter(|second| !second.is_empty()));
    holes.sort_by_key(|hole| hole.start);
    let starts = std::iter::once(0).chain(holes.iter().map(|hole| hole.end));
    let ends = holes.iter().map(|hole| hole.start).chain([end]);
    starts
        .zip(ends)
        .filter(|(start, end)| start < end)
        .map(|(offset, end)| SparseArea {
            area: vfio_region_sparse_mmap_area {
                offset,
                size: end - offset,
            },
        })
        .collect()
}

fn regions(gpu: &Gpu) -> Vec<ServerRegion> {
    let read_write = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let (size, mapped) = match index {
                VFIO_PCI_BAR0_REGION_INDEX => {
                    (frame_buffer_bar(gpu.vram.len()), !gpu.hdp.is_buffered())
                }
                VFIO_PCI_BAR2_REGION_INDEX => (DOORBELL_BAR, false),
                VFIO_PCI_BAR5_REGION_INDEX => (gpu.chip.register_bar, false),
                VFIO_PCI_CONFIG_REGION_INDEX => (CONFIG_SIZE as u64, false),
                VFIO_PCI_ROM_REGION_INDEX => (expansion_rom(&gpu.rom), false),
                _ => (0, false),
            };
            let mut flags = if size != 0 { read_write } else { 0 };
            if mapped {
                flags |= VFIO_REGION_INFO_FLAG_MMAP;
            }
            ServerRegion {
                region_info: vfio_region_info {
                    argsz: std::mem::size_of::<vfio_region_info>() as u32,
                    flags,
                    index,
                    size,
                    ..Default::default()
                },
                sparse_areas: if mapped {
                    mapped_areas(gpu, size)
                } else {
                    Vec::new()
                },
                mmap_fd: mapped.then(|| gpu.vram.fd()),
            }
        })
        .collect()
}

/// The BARs of the card.
struct Bars(Arc<Gpu>);

impl Bars {
    /// Reports an access of the host to a bad page.
    fn check_page(&self, offset: u64) {
        if self.0.gmc.bad_pages().contains(&(offset & !0xfff)) {
            strict!(
                self.0.strict,
                "bar0",
                "access to the bad page at {offset:#x}"
            );
        }
    }

    fn read_vram(&self, offset: u64, data: &mut [u8]) {
        self.check_page(offset);
        if self.0.hdp.read(offset, data).is_err() {
            strict!(self.0.strict, "bar0", "read beyond VRAM at {offset:#x}");
            data.fill(0xff);
        }
    }

    /// Returns whether an access is one or two aligned dwords in the register BAR.
    fn is_register_access(&self, offset: u64, len: usize) -> bool {
        let last = self.0.chip.register_bar.saturating_sub(len as u64);
        offset % 4 == 0 && matches!(len, 4 | 8) && offset <= last
    }

    fn read_registers(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if !self.is_register_access(offset, data.len()) {
            strict!(
                self.0.strict,
                "bar5",
                "read of {} bytes at {offset:#x}",
                data.len()
            );
            return;
        }
        for (i, word) in data.chunks_exact_mut(4).enumerate() {
            let value = self.0.bar_reg_read((offset / 4) as u32 + i as u32);
            word.copy_from_slice(&value.to_le_bytes());
        }
    }

    fn write_registers(&self, offset: u64, data: &[u8]) {
        if !self.is_register_access(offset, data.len()) {
            strict!(
                self.0.strict,
                "bar5",
                "write of {} bytes at {offset:#x}",
                data.len()
            );
            return;
        }
        for (i, word) in data.chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            self.0.bar_reg_write((offset / 4) as u32 + i as u32, value);
        }
    }

    fn write_doorbell(&self, offset: u64, data: &[u8]) {
        match (<[u8; 4]>::try_from(data), <[u8; 8]>::try_from(data)) {
            _ if offset >= DOORBELL_BAR => {
                strict!(
                    self.0.strict,
                    "bar2",
                    "write beyond configuration space at {offset:#x}"
                );
            }
            (Ok(b), _) if offset % 4 == 0 => {
                self.0.doorbell(offset, u32::from_le_bytes(b).into(), 4);
            }
            (_, Ok(b)) if offset % 8 == 0 => self.0.doorbell(offset, u64::from_le_bytes(b), 8),
            _ => strict!(
                self.0.strict,
                "bar2",
                "write of {} bytes at {offset:#x}",
                data.len()
            ),
        }
    }

    /// Executes a write to a BAR.
    fn write(&self, region: u32, offset: u64, data: &[u8]) {
        // It may have been posted before the card left.
        if self.0.knobs.pci_gone.on() {
            return;
        }
        match region {
            VFIO_PCI_BAR5_REGION_INDEX => self.write_registers(offset, data),
            VFIO_PCI_BAR2_REGION_INDEX => self.write_doorbell(offset, data),
            _ => self.write_vram(offset, data),
        }
    }

    fn write_vram(&self, offset: u64, data: &[u8]) {
        self.check_page(offset);
        if self.0.gmc.is_firmware(offset) {
            strict!(
                self.0.strict,
                "bar0",
                "write to the region of the boot firmware at {offset:#x}"
            );
        } else if self.0.store_vram(offset, data).is_err() {
            strict!(self.0.strict, "bar0", "write beyond VRAM at {offset:#x}");
        }
    }
}

impl Device {
    /// Returns the state for a new client.
    pub fn new(gpu: Arc<Gpu>) -> Self {
        let config = Config::new(gpu.chip, gpu.vram.len(), expansion_rom(&gpu.rom));
        gpu.dma.set_master(config.is_master());
        let bars = Arc::new(Bars(gpu.clone()));
        let writes = bars.clone();
        let posted = Posted::new(gpu.adversary.as_ref(), move |region, offset, data| {
            writes.write(region, offset, data);
        });
        Self {
            gpu,
            bars,
            config,
            posted,
        }
    }

    /// Cleans up after a disconnect: no guest memory, no interrupts, power-on state.
    pub fn disconnect(&mut self) {
        self.posted.flush();
        self.gpu.msix.clear();
        self.reset_config();
        self.gpu.reset(Reset::PowerOn);
        self.gpu.dma.unmap_all();
    }

    /// Resets configuration space after a reset of the card through its registers: the driver has
    /// to restore command register, device control and the rest.
    fn follow_reset(&mut self) {
        if self.gpu.take_config_lost() {
            self.reset_config();
        }
    }

    /// Returns whether the card has left the bus.
    fn is_gone(&self) -> bool {
        let gone = &self.gpu.knobs.pci_gone;
        if gone.on() {
            gone.hit();
        }
        gone.on()
    }

    /// Applies the bits of configuration space that allow requests of the card.
    fn apply_config(&self) {
        self.gpu.dma.set_master(self.config.is_master());
        self.gpu.dma.set_atomics(self.config.sends_atomics());
    }

    fn reset_config(&mut self) {
        self.config.reset();
        self.apply_config();
    }
}

impl ServerBackend for Device {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.posted.flush();
        if self.is_gone() {
            data.fill(0xff);
            return Ok(());
        }
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => {
                self.follow_reset();
                self.config.read(offset, data);
            }
            VFIO_PCI_BAR5_REGION_INDEX => self.bars.read_registers(offset, data),
            VFIO_PCI_ROM_REGION_INDEX => self.gpu.rom.read(offset, data),
            // Doorbells are write-only. User space maps them and may read: it gets 0.
            VFIO_PCI_BAR2_REGION_INDEX => {
                event!(
                    self.gpu.trace,
                    "nbio",
                    "doorbell_read",
                    "offset={offset:#x}"
                );
                data.fill(0);
            }
            VFIO_PCI_BAR0_REGION_INDEX => self.bars.read_vram(offset, data),
            _ => {
                strict!(
                    self.gpu.strict,
                    "pci",
                    "read of region {region} at {offset:#x}"
                );
                data.fill(0);
            }
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.is_gone() {
            return Ok(());
        }
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => {
                self.posted.flush();
                self.follow_reset();
                let effect = self.config.write(offset, data);
                self.apply_config();
                match effect {
                    // Its address outlives a reset: the client emulates reads of BARs, so that the
                    // guest does not write it again.
                    Effect::DoorbellBar => self.gpu.selfring.set_bar(self.config.doorbell_bar()),
                    Effect::Reset => {
                        event!(self.gpu.trace, "pci", "flr");
                        self.gpu.reset(Reset::Flr);
                    }
                    Effect::None => {}
                }
            }
            VFIO_PCI_BAR0_REGION_INDEX
            | VFIO_PCI_BAR2_REGION_INDEX
            | VFIO_PCI_BAR5_REGION_INDEX => self.posted.write(region, offset, data),
            _ => strict!(
                self.gpu.strict,
                "pci",
                "write of region {region} at {offset:#x}"
            ),
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        event!(
            self.gpu.trace,
            "dma",
            "map",
            "addr={address:#x} size={size:#x} fd={}",
            u8::from(fd.is_some())
        );
        let mapped = self.gpu.dma.map(
            address,
            size,
            fd.map(|f| (f, offset)),
            flags.contains(DmaMapFlags::READ),
            flags.contains(DmaMapFlags::WRITE),
        );
        // The client gets an error without its reason.
        mapped.inspect_err(|e| eprintln!("rkfd-gpu: guest memory at {address:#x}: {e}"))
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        event!(
            self.gpu.trace,
            "dma",
            "unmap",
            "addr={address:#x} size={size:#x}"
        );
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            self.gpu.dma.unmap_all();
        } else {
            // Nothing may be there: an invalidation of a whole domain unmaps all addresses.
            self.gpu.dma.unmap(address, size);
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.posted.flush();
        if self.is_gone() {
            return Ok(());
        }
        event!(self.gpu.trace, "pci", "device_reset");
        self.reset_config();
        // VFIO device reset is a function-level reset if the function supports it.
        self.gpu.bus_reset();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> io::Result<()> {
        if index != VFIO_PCI_MSIX_IRQ_INDEX {
            return Ok(());
        }
        if start + count > u32::from(MSIX_VECTORS) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        event!(
            self.gpu.trace,
            "pci",
            "set_irqs",
            "start={start} count={count} fds={}",
            fds.len()
        );
        if count == 0 {
            self.gpu.msix.clear();
        } else if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
            // Without descriptors the vectors are disarmed.
            let mut files: Vec<Option<File>> = fds.into_iter().map(Some).collect();
            files.resize_with(count as usize, || None);
            self.gpu.msix.set(start as usize, files);
        }
        Ok(())
    }
}
