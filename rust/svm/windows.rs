// SPDX-License-Identifier: GPL-2.0

//! The windows of a process: they are created where memory gets attributes, and removed when
//! nothing in them has any.

use kernel::{mm::MmWithUser, page::PAGE_SHIFT, prelude::*, rbtree::RBTreeNode, sync::Arc};

use super::{
    block::Block,
    shared::{Handle, State, Svm},
    window::{Window, WindowRef, BLOCKS, WINDOW_BYTES, WINDOW_PAGES},
};
use crate::{
    kapi::{hmm::Interval, task, workqueue::Delayed},
    mmu::BLOCK_PAGES,
};

/// Blocks and windows to drop.
#[derive(Default)]
struct Trash {
    // Field order: the notifier is removed before its blocks are freed.
    windows: KVVec<WindowRef>,
    blocks: KVVec<KBox<Block>>,
}

impl Svm {
    /// Returns the window with a page.
    pub(super) fn window(&self, page: u64) -> Option<WindowRef> {
        self.windows.lock().get(&(page / WINDOW_PAGES)).cloned()
    }

    /// Calls `f` for each window, without the lock of the list.
    pub(super) fn for_windows(&self, mut f: impl FnMut(&WindowRef)) {
        let mut next = 0;
        while let Some((number, window)) = self.window_from(next) {
            next = number + 1;
            f(&window);
        }
    }

    /// Returns the first window from number `next` on, and its number.
    fn window_from(&self, next: u64) -> Option<(u64, WindowRef)> {
        let windows = self.windows.lock();
        let cursor = windows.cursor_lower_bound(&next)?;
        let (number, window) = cursor.current();
        Some((*number, window.clone()))
    }

    /// Returns the number of windows of the pages from `first` to below `end` that do not exist.
    pub(super) fn missing_windows(&self, first: u64, end: u64) -> u64 {
        let (mut next, end) = (first / WINDOW_PAGES, end.div_ceil(WINDOW_PAGES));
        let mut missing = end - next;
        let windows = self.windows.lock();
        while let Some(cursor) = windows.cursor_lower_bound(&next) {
            let number = *cursor.current().0;
            if number >= end {
                break;
            }
            missing -= 1;
            next = number + 1;
        }
        missing
    }

    /// Creates the windows of the pages from `first` to below `end`, and accounts for them.
    /// `ENOMEM` if they exceed the limit, `EINTR` after SIGKILL.
    pub(super) fn add_windows(
        this: &Arc<Delayed<Self>>,
        state: &mut State,
        mm: &MmWithUser,
        first: u64,
        end: u64,
    ) -> Result {
        let more = this.missing_windows(first, end) * WINDOW_BYTES;
        if more == 0 {
            return Ok(());
        }
        state.charged.set(state.charged.get() + more)?;
        for number in first / WINDOW_PAGES..end.div_ceil(WINDOW_PAGES) {
            if task::fatal_signal_pending() {
                return Err(EINTR);
            }
            if this.windows.lock().get(&number).is_some() {
                continue;
            }
            let owner = Arc::new(Handle::new(this), GFP_KERNEL)?;
            let window = Window::new(number, owner)?;
            let bytes = (WINDOW_PAGES as usize) << PAGE_SHIFT;
            let window = Interval::new_in(mm, Window::start(number)?, bytes, window)?;
            // Unmaps from here on are recorded: the attributes are changed after this.
            window.wait_until_active();
            let node = RBTreeNode::new(number, window, GFP_KERNEL)?;
            this.windows.lock().insert(node);
            state.windows += 1;
        }
        Ok(())
    }

    /// Marks for [`Self::collect`] the windows of the pages from `first` to below `end`.
    pub(super) fn suspect(&self, state: &mut State, first: u64, end: u64) {
        state.stale = true;
        let (mut next, end) = (first / WINDOW_PAGES, end.div_ceil(WINDOW_PAGES));
        while let Some((number, window)) = self.window_from(next).filter(|(at, _)| *at < end) {
            window.watch().lock().suspect();
            next = number + 1;
        }
    }

    /// Removes blocks and windows without attributes, among the windows that may have some. They
    /// are dropped before `state` is unlocked: there is one mirror of a block at a time.
    pub(super) fn collect(&self, state: &mut State) {
        let mut trash = Trash::default();
        if !core::mem::replace(&mut state.stale, false) {
            return;
        }
        self.for_windows(|window| {
            if !window.watch().lock().take_suspect() {
                return;
            }
            let first = window.watch().first();
            for index in 0..BLOCKS {
                let base = first + (index * BLOCK_PAGES) as u64;
                let end = base + BLOCK_PAGES as u64;
                let used = state.attributes.has_any(base, end);
                // Without memory for the list they are kept until the next time.
                if used {
                    let kept = state.attributes.in_block(base);
                    self.release_pages(window, index, kept);
                    continue;
                }
                if trash.blocks.reserve(1, GFP_KERNEL).is_err() {
                    window.watch().lock().suspect();
                    state.stale = true;
                    continue;
                }
                let block = window.watch().lock().take(index);
                if let Some(block) = block {
                    let _ = trash.blocks.push_within_capacity(block);
                }
            }
            let used = state.attributes.has_any(first, first + WINDOW_PAGES);
            let empty = !used && window.watch().lock().is_empty();
            if !empty {
                return;
            }
            if trash.windows.reserve(1, GFP_KERNEL).is_err() {
                window.watch().lock().suspect();
                state.stale = true;
                return;
            }
            let removed = self.windows.lock().remove(&(first / WINDOW_PAGES));
            if let Some(removed) = removed {
                state.windows -= 1;
                let _ = trash.windows.push_within_capacity(removed);
            }
        });
    }
}
