// SPDX-License-Identifier: GPL-2.0

//! Bad pages of VRAM: reads the table in the EEPROM of the board, and keeps the pages from being
//! allocated.

use kernel::prelude::*;
use rkfd_abi::{
    eeprom::{header, info, record, NPS_SHIFT, PFN, SIZE, VERSION_1, VERSION_2_1, VERSION_3},
    psp::ras_block,
    pte::PAGE_SIZE,
};

use super::Gpu;
use crate::{
    asic::{bytes::array_at, vbios::Vbios},
    hw::ras::RasHal,
};

/// Returns the dword at byte `at`.
fn dword(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(array_at(bytes, at)?)).ok()
}

impl Gpu {
    /// Takes the pages that the EEPROM lists as bad out of use, once, and reports their number to
    /// the SMU after each start of it.
    ///
    /// `EIO` when the EEPROM does not respond, `EINVAL` for a table that is not valid
    /// (`ras_core_hw_init`).
    pub(super) fn retire_bad_pages(&self) -> Result {
        let (Some(ras), Some(smu)) = (self.generation().ras, self.smu()) else {
            return Ok(());
        };
        let mmio = self.mmio()?;
        if self.config().ras_blocks >> ras_block::UMC & 1 == 0 {
            return Ok(());
        }
        if self.bad_pages.as_ref().is_none() {
            let records = self.retire_pages_of(ras)?;
            self.bad_pages.populate(records);
        }
        if let Some(records) = self.bad_pages.copy().filter(|records| *records != 0) {
            if let Err(e) = smu.set_bad_pages(mmio, records) {
                dev_err!(
                    self.dev(),
                    "the SMU rejects the number of bad pages: {e:?}\n"
                );
            }
        }
        Ok(())
    }

    /// Takes the pages out of use. Returns the number of records in the table.
    fn retire_pages_of(&self, ras: &dyn RasHal) -> Result<u32> {
        let mmio = self.mmio()?;
        let at = self.vbios().and_then(Vbios::bad_page_table);
        let Some(table) = self.read_bad_pages(at.unwrap_or(ras.table()))? else {
            dev_info!(self.dev(), "the EEPROM has no table of bad pages\n");
            return Ok(0);
        };
        let records = table.chunks_exact(record::SIZE);
        let count = records.len();
        let (mut retired, mut others) = (0u64, 0u64);
        for record in records {
            let bytes = record.get(record::PAGE..).ok_or(EINVAL)?;
            let page = bytes
                .iter()
                .rev()
                .fold(0, |all, b| all << 8 | u64::from(*b));
            // 0: an old record, of NPS1.
            if !matches!(page >> NPS_SHIFT & 0x7f, 0 | 1) || self.vram().partitions().len() != 1 {
                others += 1;
                continue;
            }
            let device = self.config().pci.device;
            for page in ras.row(mmio, device, (page & PFN) * PAGE_SIZE) {
                match self.vram().retire(page) {
                    Ok(new) => retired += u64::from(new),
                    Err(e) => {
                        dev_warn!(self.dev(), "the bad page {page:#x} is in use: {e:?}\n");
                    }
                }
            }
        }
        if others != 0 {
            dev_warn!(
                self.dev(),
                "{others} records of bad pages are of another memory partition mode\n"
            );
        }
        if retired != 0 {
            dev_info!(
                self.dev(),
                "the EEPROM has {count} records of bad pages, {retired} pages are not used\n"
            );
        }
        Ok(u32::try_from(count)?)
    }

    /// Reads the records of the table at an address, `None` if there is no table.
    fn read_bad_pages(&self, at: u32) -> Result<Option<KVVec<u8>>> {
        let (smu, mmio) = (self.smu().ok_or(ENODEV)?, self.mmio()?);
        let failed = |e| dev_err!(self.dev(), "the EEPROM cannot be read: {e:?}\n");
        let mut head = [0u8; header::SIZE];
        smu.read_eeprom(mmio, at, &mut head)
            .inspect_err(|e| failed(*e))?;
        let word = |at| dword(&head, at).ok_or(EINVAL);
        let signature = u32::try_from(word(header::SIGNATURE)?)?;
        if !matches!(signature, header::GOOD | header::BAD) {
            return Ok(None);
        }
        let start = match u32::try_from(word(header::VERSION)?)? {
            VERSION_1 => header::SIZE,
            VERSION_2_1 | VERSION_3 => header::SIZE + info::SIZE,
            version => {
                dev_err!(
                    self.dev(),
                    "unknown version {version:#x} of the EEPROM's table\n"
                );
                return Err(EINVAL);
            }
        };
        let (end, first) = (word(header::TABLE_SIZE)?, word(header::FIRST_RECORD)?);
        let Some(len) = end.checked_sub(start) else {
            return Ok(None);
        };
        let len = len / record::SIZE * record::SIZE;
        // The area of the records is a ring, of which `first` is the oldest one.
        let room = (SIZE - start) / record::SIZE * record::SIZE;
        if len > room || !(start..start + room).contains(&first) {
            dev_err!(
                self.dev(),
                "the header of the EEPROM's table is not valid\n"
            );
            return Err(EINVAL);
        }
        let first = start + (first - start) / record::SIZE * record::SIZE;
        let mut records = KVVec::<u8>::zeroed(len, GFP_KERNEL)?;
        let (tail, wrapped) = records.split_at_mut(len.min(start + room - first));
        smu.read_eeprom(mmio, at + u32::try_from(first)?, tail)
            .and_then(|()| smu.read_eeprom(mmio, at + u32::try_from(start)?, wrapped))
            .inspect_err(|e| failed(*e))?;
        if signature == header::BAD {
            dev_warn!(
                self.dev(),
                "the board has more bad pages than its threshold\n"
            );
        }
        Ok(Some(records))
    }
}
