// SPDX-License-Identifier: GPL-2.0 OR MIT

//! MSI-X vectors, as armed by the vfio-user client.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

/// MSI-X vectors that the client armed.
#[derive(Default)]
pub struct Msix {
    vectors: Mutex<Vec<Option<File>>>,
}

impl Msix {
    /// Replaces vectors from `start` on.
    pub fn set(&self, start: usize, files: Vec<Option<File>>) {
        let mut vectors = self.vectors.lock().unwrap_or_else(|e| e.into_inner());
        let end = start + files.len();
        if vectors.len() < end {
            vectors.resize_with(end, || None);
        }
        for (slot, file) in vectors[start..].iter_mut().zip(files) {
            *slot = file;
        }
    }

    /// Disarms all vectors.
    pub fn clear(&self) {
        self.vectors
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .clear();
    }

    /// Triggers `vector`; returns whether it is armed.
    pub fn send(&self, vector: usize) -> bool {
        let vectors = self.vectors.lock().unwrap_or_else(|e| e.into_inner());
        match vectors.get(vector) {
            Some(Some(file)) => {
                let mut event: &File = file;
                event.write_all(&1u64.to_ne_bytes()).is_ok()
            }
            _ => false,
        }
    }
}
