// SPDX-License-Identifier: GPL-2.0

//! Product data of the board: reads it from the FRU EEPROM.

use kernel::prelude::*;
use rkfd_abi::fru::header;

use super::Gpu;
use crate::{
    asic::{
        fru::{self, Malformed, Product},
        mmio::Mmio,
    },
    card::smu::Smu,
};

impl Gpu {
    /// Returns the product data, `None` for a board without a FRU EEPROM.
    pub(crate) fn product(&self) -> Option<&Product> {
        self.product.as_ref().map(|product| &**product)
    }

    /// Reads the product data, once. An EEPROM that does not respond or is not valid is reported
    /// and leaves the serial number of the package (`amdgpu_fru_get_product_info`, which runs
    /// before that number is known). `ENOMEM` without memory.
    pub(super) fn read_product(&self) -> Result {
        let Some((smu, at)) = self.smu().and_then(|smu| Some((smu, smu.fru()?))) else {
            return Ok(());
        };
        let mut product = KBox::new(Product::unknown(self.smu_facts().serial), GFP_KERNEL)?;
        match self.read_product_area(smu, self.mmio()?, at) {
            Ok(area) => {
                if let Err(why) = product.read(&area) {
                    self.report(why);
                }
            }
            Err(e) if e == ENOMEM => return Err(e),
            Err(_) => {}
        }
        self.product.populate(product);
        Ok(())
    }

    /// Reads the product area of the EEPROM at an address; without one it is empty. Reports
    /// errors: `EIO` when the EEPROM does not respond, `EINVAL` for contents that are not valid.
    fn read_product_area(&self, smu: &Smu, mmio: &Mmio, at: u32) -> Result<KVec<u8>> {
        let read = |at, to: &mut [u8]| {
            smu.read_eeprom(mmio, at, to)
                .inspect_err(|e| dev_err!(self.dev(), "the FRU EEPROM cannot be read: {e:?}\n"))
        };
        let invalid = |why| {
            self.report(why);
            EINVAL
        };
        let mut head = [0; header::SIZE];
        read(at, &mut head)?;
        let Some(offset) = fru::product_area(&head).map_err(invalid)? else {
            return Ok(KVec::new());
        };
        let mut start = [0; fru::AREA_HEADER];
        read(at + offset, &mut start)?;
        let bytes = fru::area_bytes(&start).map_err(invalid)?;
        let mut area = KVec::from_elem(0, bytes, GFP_KERNEL)?;
        read(at + offset, &mut area)?;
        Ok(area)
    }

    fn report(&self, why: Malformed) {
        match why {
            Malformed::Version(version) => {
                dev_err!(self.dev(), "unknown version {version:#x} of FRU data\n");
            }
            Malformed::Checksum(sum) => {
                dev_err!(self.dev(), "FRU data has a wrong checksum: {sum:#x}\n");
            }
        }
    }
}
