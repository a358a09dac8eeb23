// SPDX-License-Identifier: GPL-2.0

//! A MES ring: memory, submission of frames, their fences and status words.

use kernel::{fmt, page::PAGE_SIZE, prelude::*, sync::barrier};
use rkfd_abi::mes as abi;

use super::frame::{Frame, QueryStatus, Words};
use crate::{
    card::Card,
    hw::{MesPipe, MqdKind, QueueSpec},
    ring::{
        wait,
        writer::{Format, Layout, Wrap, Writer},
    },
    trace,
};

/// Returns the name of a frame's opcode.
pub(super) fn op_name(opcode: u8) -> &'static str {
    abi::op_name(opcode).unwrap_or("unknown")
}

/// Size of the ring in dwords.
const RING_DWORDS: usize = 2048;
const RING: usize = 0;
const POINTERS: usize = RING_DWORDS * 4;
const RPTR: usize = POINTERS;
const WPTR: usize = POINTERS + 64;
/// Fence of QUERY_SCHEDULER_STATUS.
const FENCE: usize = POINTERS + 128;
/// Scheduler context of the firmware.
const CONTEXT: usize = POINTERS + 192;
const STATUS_FENCE: usize = POINTERS + 256;
/// Status words of the last frames, used in turn: a late write does not hit that of another frame.
const STATUS: usize = POINTERS + 1024;
const STATUS_SLOTS: usize = 64;
/// List of hung queues: doorbells, then as many words with types and slots.
const HUNG: usize = POINTERS + 2048;
const HUNG_BYTES: usize = PAGE_SIZE - 2048;
const CLEANER_FENCE: usize = POINTERS + PAGE_SIZE;
const EOP: usize = CLEANER_FENCE + PAGE_SIZE;
const EOP_BYTES: usize = 2048;
const MQD: usize = EOP + PAGE_SIZE;
const TOTAL: usize = MQD + PAGE_SIZE;

/// Status word of a frame that succeeded (`api_completion_fence_value`).
const SUCCESS: u64 = 1;
/// Timeout of a frame. `mes_v12_0_submit_pkt_and_poll_completion()`: 2.1 s.
const TIMEOUT_MS: i64 = 2100;

/// Number of opcodes that are counted.
const OPCODES: usize = 24;

/// Failure of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The status word is this error.
    Status(abi::ErrorWord),
    /// The fence signaled, but the status word was not written.
    NoStatus,
    /// The fence did not signal (`ETIMEDOUT`), or the frame was not submitted: the GPU is hung
    /// (`EIO`) or the device is unplugged (`ENODEV`).
    NotCompleted(Error),
}

/// `ETIMEDOUT` for each failure of a frame that was submitted, as in the C driver
/// (`mes_v12_0_submit_pkt_and_poll_completion`).
impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Status(_) | Failure::NoStatus => ETIMEDOUT,
            Failure::NotCompleted(e) => e,
        }
    }
}

impl From<Error> for Failure {
    /// Nothing was submitted.
    fn from(e: Error) -> Self {
        Self::NotCompleted(e)
    }
}

/// Formats an error word for the log.
struct ErrorText(abi::ErrorWord);

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let category = match self.0.category {
            abi::error_category::API => "the API",
            abi::error_category::SCHEDULING => "the scheduler",
            _ => "an unknown category",
        };
        write!(
            f,
            "error {} of {category} in {}",
            self.0.code,
            op_name(self.0.opcode)
        )?;
        if self.0.opcode == abi::op::MISC {
            let name = abi::misc_op_name(self.0.misc).unwrap_or("unknown");
            write!(f, " ({name})")?;
        }
        Ok(())
    }
}

/// State of a ring, for debugfs.
#[derive(Clone, Copy)]
pub(crate) struct State {
    /// Dword index in the doorbell BAR.
    pub(crate) doorbell: u32,
    /// Write pointer in dwords.
    pub(crate) wptr: u64,
    /// Fence of the last frame submitted.
    pub(crate) emitted: u32,
    /// Fence in memory.
    pub(crate) signaled: u32,
    /// A frame timed out: the ring is no longer used.
    pub(crate) hung: bool,
    /// Frames submitted, per opcode.
    pub(crate) submitted: [u64; OPCODES],
    /// Number of frames that failed.
    pub(crate) failures: u32,
    /// Last error word.
    pub(crate) last: Option<abi::ErrorWord>,
}

/// A compute queue that was not preempted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HungQueue {
    /// Dword index in the doorbell BAR.
    pub(crate) doorbell: u32,
    /// HQD slot.
    pub(crate) pipe: u32,
    pub(crate) queue: u32,
}

/// A MES ring.
pub(super) struct Ring {
    pipe: MesPipe,
    writer: Writer,
    /// The MQD as it was written last. In advance: nothing is allocated under the ring's lock,
    /// which MMU notifiers take.
    image: KVec<u32>,
    emitted: u32,
    hung: bool,
    /// Until [`Ring::reset`], see [`Ring::stop`].
    stopped: bool,
    submitted: [u64; OPCODES],
    failures: u32,
    last: Option<abi::ErrorWord>,
}

impl Ring {
    /// Allocates the ring of a pipe; it is not mapped yet. `ENOMEM` without memory.
    pub(super) fn new(card: &Card, pipe: MesPipe) -> Result<Self> {
        let buffer = card.system_buffer(TOTAL)?;
        let layout = Layout {
            ring: RING,
            dwords: RING_DWORDS,
            rptr: RPTR,
            wptr: WPTR,
        };
        let doorbell = card.generation().need_mes()?.doorbell(pipe) * 2;
        let name = match pipe {
            MesPipe::Scheduler => c"MES",
            MesPipe::Kiq => c"MES KIQ",
        };
        let writer = Writer::new(name, buffer, layout, Format::PM4, Wrap::Split, 1, doorbell)?;
        Ok(Self {
            pipe,
            writer,
            image: KVec::<u32>::zeroed(card.generation().mqd.dwords(), GFP_KERNEL)?,
            emitted: 0,
            hung: false,
            stopped: false,
            submitted: [0; OPCODES],
            failures: 0,
            last: None,
        })
    }

    /// Refuses frames, before the pipe is halted.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Returns whether the ring was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Empties the ring before the hardware is restarted, and clears the hung state.
    pub(super) fn reset(&mut self) -> Result {
        self.writer.buffer().write32(FENCE, 0)?;
        self.emitted = 0;
        self.hung = false;
        self.stopped = false;
        self.writer.reset()
    }

    /// Writes the MQD and returns its dwords. Allocates no memory.
    pub(super) fn write_mqd(&mut self, card: &Card) -> Result<&[u32]> {
        let g = card.generation();
        let spec = QueueSpec {
            wptr_kernel: self.wptr_addr(),
            ..self.writer.queue_spec(EOP, EOP_BYTES)
        };
        let cx = self.writer.mqd_context(card, MqdKind::Mes, MQD);
        self.image.fill(0);
        g.mqd.init(&cx, &spec, &mut self.image)?;
        self.writer.buffer().write_dwords(MQD, &self.image)?;
        Ok(&self.image)
    }

    /// Returns the dword index in the doorbell BAR.
    pub(super) fn doorbell(&self) -> u32 {
        self.writer.doorbell()
    }

    /// Returns the GPU address of the write pointer.
    pub(super) fn wptr_addr(&self) -> u64 {
        self.writer.wptr_addr()
    }

    fn addr(&self, at: usize) -> u64 {
        self.writer.buffer().gpu_addr() + at as u64
    }

    /// Returns the GPU address of the MQD.
    pub(super) fn mqd_addr(&self) -> u64 {
        self.addr(MQD)
    }

    /// Returns the GPU address of the scheduler context.
    pub(super) fn context_addr(&self) -> u64 {
        self.addr(CONTEXT)
    }

    /// Returns the GPU address of the QUERY_SCHEDULER_STATUS fence.
    pub(super) fn status_fence_addr(&self) -> u64 {
        self.addr(STATUS_FENCE)
    }

    /// Returns the GPU address of the cleaner shader's fence.
    pub(super) fn cleaner_fence_addr(&self) -> u64 {
        self.addr(CLEANER_FENCE)
    }

    /// Empties the list of hung queues, for the frame that fills it, and returns its GPU address.
    /// `EINVAL` when it is too small for `hqds` slots.
    pub(super) fn clear_hung(&self, hqds: usize) -> Result<u64> {
        if hqds * 8 > HUNG_BYTES {
            return Err(EINVAL);
        }
        let buffer = self.writer.buffer();
        for n in 0..2 * hqds {
            buffer.write32(HUNG + n * 4, abi::NO_DOORBELL)?;
        }
        Ok(self.addr(HUNG))
    }

    /// Returns entry `n` of the list of hung queues for `hqds` slots, if it is used.
    pub(super) fn hung(&self, hqds: usize, n: usize) -> Result<Option<HungQueue>> {
        let buffer = self.writer.buffer();
        let doorbell = buffer.read32(HUNG + n * 4)?;
        if doorbell == abi::NO_DOORBELL {
            return Ok(None);
        }
        let place = buffer.read32(HUNG + (hqds + n) * 4)?;
        Ok(Some(HungQueue {
            doorbell,
            pipe: abi::HUNG_PIPE.get(place),
            queue: abi::HUNG_HQD.get(place),
        }))
    }

    /// Returns a copy of the MQD, for debugfs. `ENOMEM` without memory.
    pub(super) fn mqd_words(&self, card: &Card) -> Result<KVec<u32>> {
        self.writer.mqd_words(card, MQD)
    }

    /// Returns the state of the ring, for debugfs.
    pub(super) fn state(&self) -> State {
        State {
            doorbell: self.writer.doorbell(),
            wptr: self.writer.wptr(),
            emitted: self.emitted,
            signaled: self.writer.buffer().read32(FENCE).unwrap_or(0),
            hung: self.hung,
            submitted: self.submitted,
            failures: self.failures,
            last: self.last,
        }
    }

    /// Submits a frame and polls for its completion. Wedges the card after 2.1 s. Allocates no
    /// memory. Errors as [`Failure`].
    pub(super) fn submit<F: Frame>(&mut self, card: &Card, frame: &F) -> Result<(), Failure> {
        card.check_usable()?;
        if self.hung {
            return Err(Failure::NotCompleted(EIO));
        }
        if self.stopped {
            return Err(Failure::NotCompleted(ENODEV));
        }
        let timer = trace::MesTimer::start();
        let fence = self.emitted.wrapping_add(1);
        let status_offset = STATUS + fence as usize % STATUS_SLOTS * 8;
        self.writer.buffer().write64(status_offset, 0)?;
        let mut words = [0; 2 * abi::FRAME_DWORDS];
        let (first, second) = words.split_at_mut(abi::FRAME_DWORDS);
        write_frame(first, frame, self.addr(status_offset), SUCCESS)?;
        write_frame(second, &QueryStatus, self.addr(FENCE), fence.into())?;
        let first: &Words = (&*first).try_into().map_err(|_| EINVAL)?;
        let pipe = self.pipe as u32;
        trace::mes_submit(card.id(), pipe, F::NAME, frame.doorbell(), fence, first);
        self.writer.send(card, &words, F::NAME)?;
        self.emitted = fence;
        if let Some(count) = self.submitted.get_mut(usize::from(F::SHAPE.opcode)) {
            *count += 1;
        }
        let result = self.poll_fence(card, fence, status_offset);
        timer.end(card.id(), pipe, F::NAME, fence, result.map_err(Error::from));
        if let Err(failure) = result {
            self.report(card, F::SHAPE, failure);
        }
        result
    }

    /// Polls until the fence signals, and checks the status word.
    fn poll_fence(&mut self, card: &Card, fence: u32, status_offset: usize) -> Result<(), Failure> {
        let writer = &self.writer;
        let mut status = 0;
        let polled = wait(TIMEOUT_MS, || {
            let buffer = writer.buffer().access()?;
            if buffer.read32(FENCE)? != fence {
                drop(buffer);
                card.check_usable()?;
                return Ok(false);
            }
            barrier::mb(barrier::Full);
            status = buffer.read64(status_offset)?;
            // The firmware does not report a read pointer.
            writer.all_read(&buffer)?;
            Ok(true)
        });
        if polled == Err(ETIMEDOUT) {
            self.hung = true;
            return Err(Failure::NotCompleted(ETIMEDOUT));
        }
        polled?;
        if status as u32 != 0 {
            return Ok(());
        }
        Err(abi::ErrorWord::decode(status).map_or(Failure::NoStatus, Failure::Status))
    }

    /// Logs a failure. Wedges the card when the firmware does not respond.
    fn report(&mut self, card: &Card, shape: &abi::Frame, failure: Failure) {
        let pipe = self.pipe as u32;
        self.failures += 1;
        match failure {
            Failure::Status(word) => {
                self.last = Some(word);
                dev_err!(
                    card.dev(),
                    "MES({pipe}) failed {}: {}\n",
                    shape.name,
                    ErrorText(word)
                );
            }
            Failure::NoStatus => {
                dev_err!(
                    card.dev(),
                    "MES({pipe}) did not write the status of {}\n",
                    shape.name
                );
            }
            Failure::NotCompleted(_) if self.hung => {
                dev_err!(
                    card.dev(),
                    "MES({pipe}) failed to respond to {} within {TIMEOUT_MS} ms\n",
                    shape.name
                );
                card.wedge_by_scheduler("MES does not respond");
            }
            Failure::NotCompleted(_) => {}
        }
    }
}

/// Writes a frame with header and completion fence.
fn write_frame<F: Frame>(out: &mut [u32], frame: &F, addr: u64, value: u64) -> Result {
    let words: &mut Words = out.try_into().map_err(|_| EINVAL)?;
    words[0] = F::SHAPE.header();
    if let Some(misc) = F::SHAPE.misc {
        words[1] = misc.into();
    }
    frame.fill(words);
    F::SHAPE.fence_addr().set(words, addr);
    F::SHAPE.fence_value().set(words, value);
    Ok(())
}
