// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MSI-X vectors, as armed by the vfio-user client.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard};

/// MSI-X vectors that the client armed.
#[derive(Default)]
pub struct Msix {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    vectors: Vec<Option<File>>,
    /// The card has lost its table, and that MSI-X is enabled.
    lost: bool,
}

impl Msix {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Replaces vectors from `start` on.
    pub fn set(&self, start: usize, files: Vec<Option<File>>) {
        let vectors = &mut self.lock().vectors;
        let end = start + files.len();
        if vectors.len() < end {
            vectors.resize_with(end, || None);
        }
        for (slot, file) in vectors[start..].iter_mut().zip(files) {
            *slot = file;
        }
    }

    /// Disarms all vectors: MSI-X is disabled.
    pub fn clear(&self) {
        *self.lock() = State::default();
    }

    /// Loses what was set, until it is cleared. MSI-X that is disabled has nothing to lose.
    pub fn lose(&self) {
        let mut state = self.lock();
        state.lost = !state.vectors.is_empty();
    }

    /// Triggers `vector`; returns whether it is armed.
    pub fn send(&self, vector: usize) -> bool {
        let state = self.lock();
        match state.vectors.get(vector) {
            Some(Some(file)) if !state.lost => {
                let mut event: &File = file;
                event.write_all(&1u64.to_ne_bytes()).is_ok()
            }
            _ => false,
        }
    }
}
