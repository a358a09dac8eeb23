// SPDX-License-Identifier: GPL-2.0

//! GART windows of copies: system memory that a DMA engine copies to or from.
//!
//! Together they map half of the aperture at most, which leaves the other half to buffers. A copy
//! without room waits for the end of others, as with `gtt_window_lock` of the C driver.

use kernel::{
    new_condvar, new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{lock::mutex::MutexGuard, Arc, CondVar, Mutex},
};

use super::gart::{Gart, GartMapping};
use crate::kapi::dma;

/// Pages that all windows of a card map at most.
const LIMIT: usize = Gart::PAGES / 2;

/// The windows of a card.
#[pin_data]
pub(crate) struct CopyWindows {
    gart: Arc<Gart>,
    /// Pages that windows may still map.
    #[pin]
    room: Mutex<usize>,
    #[pin]
    closed: CondVar,
}

/// A part of the limit.
struct Share {
    windows: Arc<CopyWindows>,
    count: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.windows.room.lock() += self.count;
        self.windows.closed.notify_all();
    }
}

/// Pages of system memory mapped in VMID 0 for a copy.
pub(crate) struct CopyWindow {
    // Field order: unmapped before another one is mapped.
    mapping: GartMapping,
    _share: Share,
}

impl CopyWindow {
    /// Returns the address in VMID 0.
    pub(crate) fn addr(&self) -> u64 {
        self.mapping.addr()
    }
}

impl CopyWindows {
    pub(super) fn new(gart: Arc<Gart>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                gart,
                room <- new_mutex!(LIMIT),
                closed <- new_condvar!("rkfd_copy_windows"),
            }),
            GFP_KERNEL,
        )
    }

    /// Opens a window as of [`Gart::map_pages`], of 256 MiB at most (`EINVAL`). Without room it
    /// waits until others are closed, bounded by the timeout of their jobs: the caller must have no
    /// window open.
    pub(crate) fn open(
        self: &Arc<Self>,
        pages: &impl dma::Runs,
        at: u64,
        len: u64,
    ) -> Result<CopyWindow> {
        let count = Self::count(len)?;
        let mut room = self.room.lock();
        while *room < count {
            self.closed.wait(&mut room);
        }
        let share = self.take(room, count);
        self.map(share, pages, at, len)
    }

    /// Opens a window if there is room for it. Does not wait.
    pub(crate) fn try_open(
        self: &Arc<Self>,
        pages: &impl dma::Runs,
        at: u64,
        len: u64,
    ) -> Result<Option<CopyWindow>> {
        let count = Self::count(len)?;
        let room = self.room.lock();
        if *room < count {
            return Ok(None);
        }
        let share = self.take(room, count);
        self.map(share, pages, at, len).map(Some)
    }

    fn count(len: u64) -> Result<usize> {
        let count = usize::try_from(len)?.div_ceil(PAGE_SIZE);
        (count <= LIMIT).then_some(count).ok_or(EINVAL)
    }

    /// Takes `count` pages of the limit, for which there is room.
    fn take(self: &Arc<Self>, mut room: MutexGuard<'_, usize>, count: usize) -> Share {
        *room -= count;
        Share {
            windows: self.clone(),
            count,
        }
    }

    fn map(&self, share: Share, pages: &impl dma::Runs, at: u64, len: u64) -> Result<CopyWindow> {
        Ok(CopyWindow {
            mapping: self.gart.map_pages(pages, at, len)?,
            _share: share,
        })
    }
}
