// SPDX-License-Identifier: GPL-2.0

//! Placements of a BO: current and preferred.

use core::ops::Range;

use kernel::{
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{Arc, Mutex},
};

use super::{
    peer::{PeerMemory, PeerUse, Peers},
    userptr::UserPages,
};
use crate::{
    card::{account, gart::GartMapping, vram::VramRange, Card},
    doorbell::DoorbellPages,
    hw::Mtype,
    kapi::{
        dma::{self, Contents, DmaRuns, Pages, PeerMapping, Runs},
        gem::{Frame, Memory},
    },
};

/// Preferred placement of a BO (`AMDGPU_GEM_DOMAIN_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoKind {
    /// VRAM of the BO's card.
    Vram,
    /// System memory owned by the BO.
    Gtt,
    /// Pages of the doorbell BAR.
    Doorbell,
    /// The page with the remapped HDP flush registers.
    MmioRemap,
    /// Memory of a process (userptr).
    User,
}

/// CPU access to a BO (`AMDGPU_GEM_CREATE_*CPU_ACCESS*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CpuAccess {
    /// May happen.
    #[default]
    Possible,
    /// Required by user space.
    Required,
    /// Excluded by user space.
    Never,
}

/// Allocation flags of a BO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BoFlags {
    /// Uncached on the GPU (MTYPE UC).
    pub(crate) uncached: bool,
    /// Fine-grained coherence within the system.
    pub(crate) coherent: bool,
    /// Coherence across devices.
    pub(crate) ext_coherent: bool,
    /// Contiguous in VRAM.
    pub(crate) contiguous: bool,
    /// CPU access.
    pub(crate) cpu_access: CpuAccess,
    /// Memory partition in which its VRAM is; `None`: any.
    pub(crate) memory: Option<u32>,
    /// No implicit synchronization between jobs that use it.
    pub(crate) explicit_sync: bool,
}

/// GPU access permissions and caching of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Read.
    pub(crate) read: bool,
    /// Write.
    pub(crate) write: bool,
    /// Execute.
    pub(crate) exec: bool,
    /// Memory type, where the memory does not require one.
    pub(crate) mtype: Mtype,
}

/// Caching of CPU mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuCache {
    /// Ordinary memory.
    Cached,
    /// Device memory without side effects.
    WriteCombined,
    /// Registers.
    Uncached,
}

/// Bytes of system memory, accounted as GTT until dropped.
struct GttBytes {
    card: Arc<Card>,
    bytes: u64,
}

impl GttBytes {
    fn take(card: &Arc<Card>, bytes: u64, limit: u64) -> Result<Self> {
        card.take_gtt(bytes, limit)?;
        Ok(Self {
            card: card.clone(),
            bytes,
        })
    }
}

impl Drop for GttBytes {
    fn drop(&mut self) {
        self.card.put_gtt(self.bytes);
    }
}

/// The GART window of the first page of a BO: one page, limited per card.
struct Window {
    // Field order: unmapped before it is counted as free.
    mapping: GartMapping,
    _count: WindowCount,
}

/// One of the windows that [`Card::take_window`] counts.
struct WindowCount(Arc<Card>);

impl Drop for WindowCount {
    fn drop(&mut self) {
        self.0.put_window();
    }
}

impl Window {
    fn new(card: &Arc<Card>, pages: &Pages) -> Result<Self> {
        card.take_window()?;
        let count = WindowCount(card.clone());
        Ok(Self {
            mapping: card.map_pages(pages, 0, PAGE_SIZE as u64)?,
            _count: count,
        })
    }
}

/// The window while it has users.
struct Shared {
    users: usize,
    window: Option<Window>,
}

/// System memory of a BO, accounted as GTT.
#[pin_data]
pub(super) struct SystemPages {
    // Field order: unmapped before the memory is freed, and freed before it is accounted as such.
    #[pin]
    peers: Peers,
    #[pin]
    shared: Mutex<Shared>,
    #[pin]
    memory: Memory,
    gtt: GttBytes,
}

impl SystemPages {
    /// Allocates `bytes` of zeroed system memory. `ENOMEM` without memory or beyond the GTT limit,
    /// `EINTR` after `SIGKILL`, `ENODEV` after the unbind.
    pub(super) fn new(card: &Arc<Card>, bytes: u64) -> Result<Arc<Self>> {
        Self::within(card, bytes, account::gtt_limit(), Contents::Zero)
    }

    /// As [`Self::new`], for memory that leaves VRAM: with the limit of evictions, and not zeroed.
    pub(super) fn for_eviction(card: &Arc<Card>, bytes: u64) -> Result<Arc<Self>> {
        Self::within(card, bytes, account::evicted_limit(), Contents::Undefined)
    }

    fn within(card: &Arc<Card>, bytes: u64, limit: u64, contents: Contents) -> Result<Arc<Self>> {
        let gtt = GttBytes::take(card, bytes, limit)?;
        let pages = Pages::new(card.dma(), usize::try_from(bytes)?, contents)?;
        Arc::pin_init(
            pin_init!(Self {
                peers <- Peers::new(),
                shared <- new_mutex!(Shared { users: 0, window: None }),
                memory <- Memory::new(pages),
                gtt,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the pages.
    pub(super) fn pages(&self) -> &Pages {
        self.memory.pages()
    }

    /// Returns page `page` for CPU mappings; `EINVAL` beyond the end.
    pub(super) fn frame(&self, page: usize) -> Result<Frame<'_>> {
        self.memory.frame(page)
    }

    /// Maps the first page in VMID 0, until the last result is dropped. `ENOMEM` when the GART or
    /// the share of it that BOs may take is full.
    pub(super) fn map_first(self: &Arc<Self>) -> Result<KernelAddr> {
        let mut shared = self.shared.lock();
        let addr = match &shared.window {
            Some(window) => window.mapping.addr(),
            None => {
                let window = Window::new(&self.gtt.card, self.pages())?;
                shared.window.insert(window).mapping.addr()
            }
        };
        shared.users += 1;
        drop(shared);
        Ok(KernelAddr {
            addr,
            system: Some(self.clone()),
        })
    }

    fn unmap_first(&self) {
        let mut shared = self.shared.lock();
        shared.users -= 1;
        let unused = if shared.users == 0 {
            shared.window.take()
        } else {
            None
        };
        drop(shared);
        drop(unused);
    }
}

impl PeerMemory for SystemPages {
    fn peers(&self) -> &Peers {
        &self.peers
    }

    fn map_for(&self, device: &Arc<dma::Device>) -> Result<PeerMapping> {
        self.pages().map_for(device)
    }
}

/// The address of the first page of a BO in VMID 0. A BO in system memory has a window in the GART
/// until this is dropped; the BO must not move while the address is used.
pub(crate) struct KernelAddr {
    addr: u64,
    system: Option<Arc<SystemPages>>,
}

impl KernelAddr {
    /// Returns that of a BO in VRAM.
    pub(super) fn of_vram(addr: u64) -> Self {
        Self { addr, system: None }
    }

    /// Returns the address.
    pub(crate) fn get(&self) -> u64 {
        self.addr
    }
}

impl Drop for KernelAddr {
    fn drop(&mut self) {
        if let Some(system) = &self.system {
            system.unmap_first();
        }
    }
}

/// Current placement of a BO.
#[derive(Clone)]
pub(super) enum Placement {
    /// VRAM.
    Vram(Arc<VramRange>),
    /// System memory owned by the BO.
    System(Arc<SystemPages>),
    /// Pages of the doorbell BAR.
    Doorbell(Arc<DoorbellPages>),
    /// The remapped HDP flush registers.
    MmioRemap,
    /// Pages of a process.
    User(Arc<UserPages>),
    /// A userptr BO without valid pages.
    Nowhere,
}

impl Placement {
    /// Returns the name for trace events.
    pub(super) fn name(&self) -> &'static CStr {
        match self {
            Self::Vram(_) => c"VRAM",
            Self::System(_) => c"GTT",
            Self::Doorbell(_) | Self::MmioRemap => c"registers",
            Self::User(_) | Self::Nowhere => c"user",
        }
    }

    /// Maps system memory of `owner` for `card`; `None` if the DMA addresses of the owner are valid
    /// there, too, and for other memory. Errors as [`PeerMemory::map_for`].
    pub(super) fn map_for(&self, card: &Card, owner: &Card) -> Result<Option<PeerUse>> {
        let memory = self.peer_memory(card, owner);
        memory.map(|m| PeerUse::new(m, card.dma())).transpose()
    }

    /// Returns whether `peer` is up to date: the mapping that [`Self::map_for`] returns.
    pub(super) fn is_mapped_by(&self, card: &Card, owner: &Card, peer: Option<&PeerUse>) -> bool {
        match (self.peer_memory(card, owner), peer) {
            (Some(memory), Some(peer)) => peer.is_of(&*memory),
            (None, None) => true,
            _ => false,
        }
    }

    fn peer_memory(&self, card: &Card, owner: &Card) -> Option<Arc<dyn PeerMemory>> {
        if card.dma().shares_addresses(owner.dma()) {
            return None;
        }
        match self {
            Self::System(system) => Some(system.clone()),
            Self::User(pages) => Some(pages.clone()),
            _ => None,
        }
    }

    /// Returns the address that PTEs of `card` use for byte `at`, and the bytes that follow in one
    /// piece. `peer` is the use of the memory by a card that is not its owner. `EFAULT` without
    /// valid pages, `EINVAL` beyond the end.
    pub(super) fn run(&self, card: &Card, peer: Option<&PeerUse>, at: u64) -> Result<(u64, u64)> {
        if let Some(peer) = peer {
            let (dma, count) = peer.mapping().dma_run(usize::try_from(at)? / PAGE_SIZE)?;
            return Ok((dma, (count * PAGE_SIZE) as u64));
        }
        Ok(match self {
            Self::Vram(range) => {
                let (offset, len) = range.run(at)?;
                (card.vram_pa(offset), len)
            }
            Self::System(system) => {
                let (dma, count) = system.pages().dma_run(usize::try_from(at)? / PAGE_SIZE)?;
                (dma, (count * PAGE_SIZE) as u64)
            }
            // NBIO compares the address with that of the BAR, before any IOMMU translates it
            // (self-ring aperture).
            Self::Doorbell(pages) => (pages.phys() + at, (pages.size() as u64).saturating_sub(at)),
            Self::MmioRemap => (card.hdp_remap_dma() + at, PAGE_SIZE as u64 - at),
            Self::User(pages) => {
                let (dma, count) = pages.dma_run(usize::try_from(at)? / PAGE_SIZE)?;
                (dma, (count * PAGE_SIZE) as u64)
            }
            Self::Nowhere => return Err(EFAULT),
        })
    }

    /// Returns the DMA addresses of the bytes in `part`, which are whole pages; `None` if they are
    /// not pages of system memory. Errors as [`Placement::run`].
    pub(super) fn dma_runs<'a>(
        &'a self,
        peer: Option<&'a PeerUse>,
        part: Range<u64>,
    ) -> Result<Option<DmaRuns<'a>>> {
        let runs: &dyn Runs = match (peer, self) {
            (Some(peer), _) => peer.mapping(),
            (None, Self::System(system)) => system.pages(),
            (None, Self::User(pages)) => pages.runs(),
            _ => return Ok(None),
        };
        let page = |at: u64| usize::try_from(at / PAGE_SIZE as u64);
        runs.dma_runs(page(part.start)?..page(part.end)?).map(Some)
    }
}
