// SPDX-License-Identifier: GPL-2.0

//! One ring to MES: its memory, and the way of a frame to the firmware and back.

use kernel::{fmt, page::PAGE_SIZE, prelude::*, sync::barrier};
use rkfd_abi::mes as abi;

use super::frame::{Frame, QueryStatus, Words};
use crate::{
    card::Card,
    hw::{MesPipe, MqdContext, MqdKind, QueueFormat, QueueSpec},
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

/// Words of the ring.
const RING_DWORDS: usize = 2048;
const RING: usize = 0;
const POINTERS: usize = RING_DWORDS * 4;
const RPTR: usize = POINTERS;
const WPTR: usize = POINTERS + 64;
/// What the question behind a frame is answered with.
const FENCE: usize = POINTERS + 128;
/// What the firmware keeps about itself.
const CONTEXT: usize = POINTERS + 192;
const STATUS_FENCE: usize = POINTERS + 256;
/// Status words of the last frames, in turn: an answer that comes late is nobody else's.
const STATUS: usize = POINTERS + 1024;
const STATUS_SLOTS: usize = 64;
const CLEANER_FENCE: usize = POINTERS + PAGE_SIZE;
const EOP: usize = CLEANER_FENCE + PAGE_SIZE;
const EOP_BYTES: usize = 2048;
const MQD: usize = EOP + PAGE_SIZE;
const TOTAL: usize = MQD + PAGE_SIZE;

/// What the firmware writes to the status word of a frame that was done.
const DONE: u64 = 1;
/// How long the firmware may take for a frame.
const TIMEOUT_MS: i64 = 2100;

/// Opcodes that are counted.
const OPCODES: usize = 24;

/// Why a frame was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The firmware answered with this.
    Refused(abi::ErrorWord),
    /// The firmware went on without saying how it went.
    Silent,
    /// The firmware does not answer any more, or was not asked: the GPU hangs or is gone.
    Dead(Error),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(_) => EIO,
            Failure::Silent => ETIMEDOUT,
            Failure::Dead(e) => e,
        }
    }
}

impl From<Error> for Failure {
    /// Nothing was sent.
    fn from(e: Error) -> Self {
        Self::Dead(e)
    }
}

/// What an error word says, in words.
struct Said(abi::ErrorWord);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.0.category {
            abi::error_category::API => "the interface",
            abi::error_category::SCHEDULING => "the scheduler",
            _ => "somebody",
        };
        write!(
            f,
            "error {} of {by} in {}",
            self.0.code,
            op_name(self.0.opcode)
        )?;
        if self.0.opcode == abi::op::MISC {
            let what = abi::misc_op_name(self.0.misc).unwrap_or("unknown");
            write!(f, " ({what})")?;
        }
        Ok(())
    }
}

/// Numbers for debugfs.
#[derive(Clone, Copy)]
pub(crate) struct State {
    pub(crate) doorbell: u32,
    pub(crate) wptr: u64,
    pub(crate) fence: u32,
    pub(crate) answered: u32,
    /// The firmware did not answer: the ring is not used any more.
    pub(crate) dead: bool,
    /// Frames sent, by opcode.
    pub(crate) sent: [u32; OPCODES],
    pub(crate) failures: u32,
    pub(crate) last: Option<abi::ErrorWord>,
}

/// A ring.
pub(super) struct Ring {
    pipe: MesPipe,
    writer: Writer,
    fence: u32,
    dead: bool,
    sent: [u32; OPCODES],
    failures: u32,
    last: Option<abi::ErrorWord>,
}

impl Ring {
    /// The memory of a pipe's ring. Nobody reads it yet.
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
            fence: 0,
            dead: false,
            sent: [0; OPCODES],
            failures: 0,
            last: None,
        })
    }

    /// The hardware starts from the beginning again, also of a ring that was given up.
    pub(super) fn reset(&mut self) -> Result {
        self.writer.buffer().write32(FENCE, 0)?;
        self.fence = 0;
        self.dead = false;
        self.writer.reset()
    }

    /// Writes the image of the ring's queue and returns its words.
    pub(super) fn image(&self, card: &Card) -> Result<KVec<u32>> {
        let g = card.generation();
        let base = self.writer.buffer().gpu_addr();
        let spec = QueueSpec {
            format: QueueFormat::Pm4,
            sdma: None,
            ring_va: self.writer.ring_addr(),
            ring_size: self.writer.ring_bytes(),
            rptr_va: self.writer.rptr_addr(),
            wptr_va: self.writer.wptr_addr(),
            wptr_kernel: self.writer.wptr_addr(),
            eop_va: base + EOP as u64,
            eop_size: EOP_BYTES as u32,
            cwsr_va: 0,
            cwsr_size: 0,
            ctl_stack_size: 0,
            tba: 0,
            priority: 0,
            percent: 100,
            doorbell: self.writer.doorbell(),
            gws: false,
            pm4_target_xcc: 0,
        };
        let mut image = KVec::from_elem(0u32, g.mqd.dwords(), GFP_KERNEL)?;
        let cx = MqdContext {
            kind: MqdKind::Mes,
            addr: self.mqd_addr(),
            xcc: 0,
            num_xcc: card.config().num_xcc,
            stride: 0,
        };
        g.mqd.init(&cx, &spec, &mut image)?;
        self.writer.buffer().write_dwords(MQD, &image)?;
        Ok(image)
    }

    pub(super) fn doorbell(&self) -> u32 {
        self.writer.doorbell()
    }

    pub(super) fn wptr_addr(&self) -> u64 {
        self.writer.wptr_addr()
    }

    fn addr(&self, at: usize) -> u64 {
        self.writer.buffer().gpu_addr() + at as u64
    }

    pub(super) fn mqd_addr(&self) -> u64 {
        self.addr(MQD)
    }

    pub(super) fn context_addr(&self) -> u64 {
        self.addr(CONTEXT)
    }

    pub(super) fn status_fence_addr(&self) -> u64 {
        self.addr(STATUS_FENCE)
    }

    pub(super) fn cleaner_fence_addr(&self) -> u64 {
        self.addr(CLEANER_FENCE)
    }

    /// A copy of the queue's image, for debugfs.
    pub(super) fn mqd_words(&self, card: &Card) -> Result<KVec<u32>> {
        let mut words = KVec::from_elem(0u32, card.generation().mqd.dwords(), GFP_KERNEL)?;
        self.writer.buffer().read_dwords(MQD, &mut words)?;
        Ok(words)
    }

    /// Numbers for debugfs.
    pub(super) fn state(&self) -> State {
        State {
            doorbell: self.writer.doorbell(),
            wptr: self.writer.wptr(),
            fence: self.fence,
            answered: self.writer.buffer().read32(FENCE).unwrap_or(0),
            dead: self.dead,
            sent: self.sent,
            failures: self.failures,
            last: self.last,
        }
    }

    /// Sends a frame and waits until it was dealt with. The GPU hangs if that does not happen in
    /// time; needs no memory.
    pub(super) fn submit<F: Frame>(&mut self, card: &Card, frame: &F) -> Result<(), Failure> {
        card.check_usable()?;
        if self.dead {
            return Err(Failure::Dead(EIO));
        }
        let timer = trace::MesTimer::start();
        let fence = self.fence.wrapping_add(1);
        let status = STATUS + fence as usize % STATUS_SLOTS * 8;
        self.writer.buffer().write64(status, 0)?;
        let mut words = [0; 2 * abi::FRAME_DWORDS];
        let (first, second) = words.split_at_mut(abi::FRAME_DWORDS);
        write_frame(first, frame, self.addr(status), DONE)?;
        write_frame(second, &QueryStatus, self.addr(FENCE), fence.into())?;
        let first: &Words = (&*first).try_into().map_err(|_| EINVAL)?;
        let pipe = self.pipe as u32;
        trace::mes_submit(card.id(), pipe, F::NAME, frame.doorbell(), fence, first);
        self.writer.send(card, &words, F::NAME)?;
        self.fence = fence;
        if let Some(count) = self.sent.get_mut(usize::from(F::SHAPE.opcode)) {
            *count += 1;
        }
        let result = self.wait(card, fence).and_then(|()| self.result(status));
        timer.end(card.id(), pipe, F::NAME, fence, result.map_err(Error::from));
        if let Err(failure) = result {
            self.note(card, F::SHAPE, failure);
        }
        result
    }

    fn wait(&mut self, card: &Card, fence: u32) -> Result<(), Failure> {
        let buffer = self.writer.buffer();
        let answered = wait(TIMEOUT_MS, || {
            let answered = buffer.read32(FENCE)? == fence;
            if !answered {
                card.check_usable()?;
            }
            Ok(answered)
        });
        if answered == Err(ETIMEDOUT) {
            self.dead = true;
            return Err(Failure::Dead(ETIME));
        }
        answered?;
        // The firmware does not say how far it has read.
        self.writer.all_read()?;
        Ok(())
    }

    fn result(&self, status: usize) -> Result<(), Failure> {
        barrier::mb(barrier::Full);
        let said = self.writer.buffer().read64(status)?;
        if said as u32 != 0 {
            return Ok(());
        }
        Err(abi::ErrorWord::decode(said).map_or(Failure::Silent, Failure::Refused))
    }

    /// Says what went wrong, and draws the consequence if it was the firmware's end.
    fn note(&mut self, card: &Card, shape: &abi::Frame, failure: Failure) {
        let pipe = self.pipe as u32;
        self.failures += 1;
        match failure {
            Failure::Refused(word) => {
                self.last = Some(word);
                dev_err!(
                    card.dev(),
                    "MES({pipe}) refused {}: {}\n",
                    shape.name,
                    Said(word)
                );
            }
            Failure::Silent => {
                dev_err!(
                    card.dev(),
                    "MES({pipe}) did not say how {} went\n",
                    shape.name
                );
            }
            Failure::Dead(_) if self.dead => {
                dev_err!(
                    card.dev(),
                    "MES({pipe}) failed to respond to {} within {TIMEOUT_MS} ms\n",
                    shape.name
                );
                card.wedge("MES does not answer");
            }
            Failure::Dead(_) => {}
        }
    }
}

/// Writes a frame with its fence.
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
