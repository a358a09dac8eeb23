// SPDX-License-Identifier: GPL-2.0 OR MIT

//! EEPROMs of the board behind an I2C controller of the SMU: one with the table of bad pages
//! (AT24CM02, 256 KiB), and one with product data. Their contents outlive resets.

use std::time::{Duration, Instant};

use rkfd_abi::eeprom::{header, info, record, CHECKSUM, NPS_SHIFT, SIZE, VERSION_3};
use rkfd_abi::fru::FRU_AT;
use rkfd_abi::smu::i2c;

use super::fru::Product;

/// Bytes that one write may change; its address wraps within them.
const WRITE_PAGE: usize = 256;
/// Longest write cycle: the device does not acknowledge meanwhile.
const WRITE_CYCLE: Duration = Duration::from_millis(10);
/// Bytes at an I2C address.
const BLOCK: usize = 64 << 10;

/// Returns an I2C address by bits 16 to 19 of an address, as the byte on the bus.
pub const fn bus_address(at: u32) -> u8 {
    0xa0 + (at >> 15) as u8
}

/// Bits of an address in VRAM that are columns and rows which fail together, in mode NPS1 of a card
/// with 16 channels of HBM3 (`__get_nps_pa_flip_bits`).
const ROW_BITS: [u32; 4] = [15, 16, 21, 35];

/// Returns the pages of `vram` bytes that share a row of memory with an address.
pub fn row(address: u64, vram: u64) -> Vec<u64> {
    let mask = ROW_BITS.iter().fold(0xfff, |mask, bit| mask | 1 << bit);
    let pages = (0..1u64 << ROW_BITS.len()).map(|column| {
        let bits = ROW_BITS.iter().enumerate();
        bits.fold(address & !mask, |page, (n, bit)| {
            page | (column >> n & 1) << bit
        })
    });
    pages.filter(|page| *page < vram).collect()
}

/// An EEPROM.
pub struct Eeprom {
    bytes: Vec<u8>,
    /// The first of its I2C addresses, one for each [`BLOCK`].
    bus: u8,
    at: usize,
    written: Option<Instant>,
}

impl Eeprom {
    /// Returns an EEPROM at address `at` of the bus, whose table has a record for the row of each
    /// address in VRAM.
    pub fn with_bad_pages(at: u32, addresses: &[u64]) -> Self {
        let mut bytes = vec![0xff; SIZE];
        let first = header::SIZE + info::SIZE;
        let end = first + addresses.len() * record::SIZE;
        bytes[..end].fill(0);
        let mut put = |at: usize, value: u32| {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        };
        put(header::SIGNATURE, header::GOOD);
        put(header::VERSION, VERSION_3);
        put(header::FIRST_RECORD, first as u32);
        put(header::TABLE_SIZE, end as u32);
        // Health 100 percent.
        put(header::SIZE, 100 << 8);
        for (n, address) in addresses.iter().enumerate() {
            let entry = &mut bytes[first + n * record::SIZE..];
            let page = row(*address, u64::MAX)[0] >> 12 | 1 << NPS_SHIFT;
            entry[record::ERROR_TYPE] = record::NON_RECOVERABLE;
            entry[record::PAGE..record::SIZE].copy_from_slice(&page.to_le_bytes()[..6]);
        }
        let sum = bytes[..end].iter().fold(0u8, |sum, b| sum.wrapping_add(*b));
        bytes[CHECKSUM] = sum.wrapping_neg();
        Self::new(at, bytes)
    }

    /// Returns an EEPROM with product data; if it is damaged, with a wrong checksum.
    pub fn with_product(product: &Product, damaged: bool) -> Self {
        let (mut bytes, checksum) = product.image();
        bytes[checksum] ^= u8::from(damaged);
        Self::new(FRU_AT, bytes)
    }

    fn new(at: u32, bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            bus: bus_address(at),
            at: 0,
            written: None,
        }
    }

    /// Returns the block of the EEPROM that a transaction addresses, `None` if it addresses
    /// another device.
    fn block(&self, request: &[u8; i2c::SIZE]) -> Option<usize> {
        let block = usize::from(request[i2c::ADDRESS].checked_sub(self.bus)?);
        let found = request[i2c::PORT] == 0 && block % 2 == 0 && block / 2 < self.blocks();
        found.then_some(block / 2)
    }

    fn blocks(&self) -> usize {
        self.bytes.len() / BLOCK
    }

    /// Returns whether the device of a transaction is the EEPROM.
    pub fn is_addressed(&self, request: &[u8; i2c::SIZE]) -> bool {
        self.block(request).is_some()
    }

    /// Executes a transaction; reads are stored in `request`. Returns why it is not valid.
    pub fn transfer(&mut self, request: &mut [u8; i2c::SIZE]) -> Result<(), &'static str> {
        if !(1..=3).contains(&request[i2c::SPEED]) {
            return Err("the speed is not supported");
        }
        let count = usize::from(request[i2c::COUNT]);
        if count == 0 || count > i2c::COMMANDS_MAX {
            return Err("the number of commands is not valid");
        }
        if self.written.is_some_and(|at| at.elapsed() < WRITE_CYCLE) {
            return Err("the EEPROM is writing and does not acknowledge");
        }
        let block = self.block(request).ok_or("the device does not exist")?;
        let (mut sent, mut reading, mut wrote) = (0, None, false);
        let commands = request[i2c::COMMANDS..].chunks_mut(2).take(count);
        for (n, command) in commands.enumerate() {
            let (last, config) = (n == count - 1, command[1]);
            if last != (config & i2c::STOP != 0) {
                return Err("STOP is not at the last command");
            }
            let read = config & i2c::WRITE == 0;
            if reading.is_some_and(|before| before != read)
                && config & (i2c::RESTART | i2c::STOP) == 0
            {
                return Err("the direction changes without RESTART");
            }
            reading = Some(read);
            match (read, sent) {
                (true, _) => {
                    command[0] = self.bytes[self.at];
                    self.at = (self.at + 1) % self.bytes.len();
                }
                (false, 0) => self.at = block * BLOCK + (usize::from(command[0]) << 8),
                (false, 1) => self.at |= usize::from(command[0]),
                (false, _) => {
                    self.bytes[self.at] = command[0];
                    let page = self.at / WRITE_PAGE * WRITE_PAGE;
                    self.at = page | (self.at + 1) % WRITE_PAGE;
                    wrote = true;
                }
            }
            sent += u32::from(!read);
        }
        if wrote {
            self.written = Some(Instant::now());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rkfd_abi::eeprom::TABLE_AT;

    use super::*;

    /// Returns a request of `bytes` to write and `reads` bytes to read.
    fn request(bytes: &[u8], reads: usize) -> [u8; i2c::SIZE] {
        let mut request = [0; i2c::SIZE];
        request[i2c::SPEED] = i2c::FAST_400K;
        request[i2c::ADDRESS] = bus_address(TABLE_AT);
        request[i2c::COUNT] = (bytes.len() + reads) as u8;
        for (n, byte) in bytes.iter().enumerate() {
            request[i2c::COMMANDS + 2 * n..][..2].copy_from_slice(&[*byte, i2c::WRITE]);
        }
        if reads != 0 {
            request[i2c::COMMANDS + 2 * bytes.len() + 1] = i2c::RESTART;
        }
        request[i2c::COMMANDS + 2 * (bytes.len() + reads) - 1] |= i2c::STOP;
        request
    }

    #[test]
    fn table_has_a_record_of_a_row() {
        let mut eeprom = Eeprom::with_bad_pages(TABLE_AT, &[0x1021_8123]);
        let end = header::SIZE + info::SIZE + record::SIZE;
        let sum = eeprom.bytes[..end]
            .iter()
            .fold(0u8, |sum, b| sum.wrapping_add(*b));
        assert_eq!(sum, 0);
        let at = header::SIZE + info::SIZE + record::PAGE;
        let mut read = request(&[(at >> 8) as u8, at as u8], 6);
        eeprom.transfer(&mut read).unwrap();
        let byte = |n: usize| read[i2c::COMMANDS + 4 + 2 * n];
        assert_eq!([0, 1, 2, 3, 4, 5].map(byte), [0, 0, 1, 0, 0, 1]);
        assert_eq!(row(0x1021_8123, 1 << 30).len(), 8);
    }

    #[test]
    fn write_wraps_in_its_page_and_takes_time() {
        let mut eeprom = Eeprom::with_bad_pages(TABLE_AT, &[]);
        eeprom
            .transfer(&mut request(&[0x20, 0xff, 1, 2], 0))
            .unwrap();
        assert_eq!((eeprom.bytes[0x20ff], eeprom.bytes[0x2000]), (1, 2));
        assert!(eeprom.transfer(&mut request(&[0, 0], 1)).is_err());
    }

    #[test]
    fn malformed_requests_are_not_executed() {
        let mut eeprom = Eeprom::with_bad_pages(TABLE_AT, &[]);
        let mut other = request(&[0, 0], 1);
        for address in [0xa8, 0xae] {
            other[i2c::ADDRESS] = address;
            assert!(eeprom.is_addressed(&other));
        }
        for address in [0xa0, 0xa6, 0xa9, 0xb0] {
            other[i2c::ADDRESS] = address;
            assert!(!eeprom.is_addressed(&other));
        }
        let mut endless = request(&[0, 0], 2);
        endless[i2c::COMMANDS + 7] = 0;
        assert!(eeprom.transfer(&mut endless).is_err());
    }

    #[test]
    fn product_data_has_its_own_address() {
        let mut eeprom = Eeprom::with_product(&Product::new("A card"), false);
        let mut read = request(&[0, 0], 8);
        assert!(!eeprom.is_addressed(&read) && eeprom.transfer(&mut read).is_err());
        read[i2c::ADDRESS] = 0xb0;
        eeprom.transfer(&mut read).unwrap();
        let byte = |n: usize| read[i2c::COMMANDS + 4 + 2 * n];
        assert_eq!((byte(0), byte(3)), (1, 1));
        let sum = (0..8).fold(0u8, |sum, n| sum.wrapping_add(byte(n)));
        assert_eq!(sum, 0);
        read[i2c::ADDRESS] = 0xb2;
        assert!(!eeprom.is_addressed(&read));
    }
}
