// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The retry CAM: an access that is retried raises one interrupt, until the driver acknowledges it
//! by the number of its slot.

use std::time::Instant;

use super::Entry;

/// Slots. The headers have no number; the driver's software ring has room for 255 entries.
pub const SLOTS: usize = 64;

/// Key of an access: an address space, and the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    node_id: u8,
    mm_hub: bool,
    vmid: u8,
    page: u64,
}

/// A fault that is not acknowledged.
#[derive(Debug, Clone, Copy)]
struct Fault {
    key: Key,
    since: Instant,
}

/// Result of looking up a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// In a new slot: raises an interrupt.
    New(usize),
    /// Known and not acknowledged.
    Known,
    /// No slot is free: the access is retried without an interrupt.
    Full,
}

/// See the module documentation.
pub struct Cam {
    slots: [Option<Fault>; SLOTS],
}

impl Default for Cam {
    fn default() -> Self {
        Self {
            slots: [None; SLOTS],
        }
    }
}

impl Cam {
    /// Looks up the fault of an interrupt entry.
    pub fn look_up(&mut self, entry: &Entry) -> Found {
        let key = Key {
            node_id: entry.node_id,
            mm_hub: entry.mm_hub,
            vmid: entry.vmid,
            page: u64::from(entry.ctx[0]) | u64::from(entry.ctx[1] & 0xf) << 32,
        };
        if self.slots.iter().flatten().any(|fault| fault.key == key) {
            return Found::Known;
        }
        let Some(free) = self.slots.iter().position(Option::is_none) else {
            return Found::Full;
        };
        self.slots[free] = Some(Fault {
            key,
            since: Instant::now(),
        });
        Found::New(free)
    }

    /// Frees a slot. Returns whether it was in use.
    pub fn acknowledge(&mut self, slot: u32) -> bool {
        let slot = self.slots.get_mut(slot as usize);
        slot.and_then(Option::take).is_some()
    }

    /// Returns the slots in use, with VMID, page and age in seconds.
    pub fn pending(&self) -> impl Iterator<Item = (usize, u8, u64, u64)> + '_ {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(n, slot)| {
            let Fault { key, since } = (*slot)?;
            Some((n, key.vmid, key.page, since.elapsed().as_secs()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(vmid: u8, page: u32) -> Entry {
        Entry {
            vmid,
            ctx: [page, 0x80, 0, 0],
            ..Entry::default()
        }
    }

    #[test]
    fn a_fault_is_new_again_after_its_acknowledgement() {
        let mut cam = Cam::default();
        assert_eq!(cam.look_up(&entry(8, 5)), Found::New(0));
        assert_eq!(cam.look_up(&entry(8, 5)), Found::Known);
        assert_eq!(cam.look_up(&entry(9, 5)), Found::New(1));
        assert!(cam.acknowledge(0) && !cam.acknowledge(0));
        assert_eq!(cam.look_up(&entry(8, 5)), Found::New(0));
        assert!(!cam.acknowledge(2) && !cam.acknowledge(0x3ff));
        assert_eq!(cam.pending().count(), 2);
    }

    #[test]
    fn a_full_cam_delays_faults() {
        let mut cam = Cam::default();
        for n in 0..SLOTS {
            assert_eq!(cam.look_up(&entry(8, n as u32)), Found::New(n));
        }
        assert_eq!(cam.look_up(&entry(8, 1 << 20)), Found::Full);
        assert!(cam.acknowledge(7));
        assert_eq!(cam.look_up(&entry(8, 1 << 20)), Found::New(7));
    }
}
