// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Posted writes: stores of the host to the BARs.
//!
//! PCI Express memory writes are not acknowledged. In adversarial mode they arrive late, in order.
//! A read of the host, whose request does not pass them, executes after all of them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::adversary::Adversary;

/// A write of the host.
struct Write {
    region: u32,
    offset: u64,
    data: Vec<u8>,
    arrival: Instant,
}

type Apply = dyn Fn(u32, u64, &[u8]) + Send + Sync;

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    apply: Box<Apply>,
}

#[derive(Default)]
struct Queue {
    writes: VecDeque<Write>,
    closed: bool,
}

/// The posted writes to one card.
pub struct Posted {
    shared: Arc<Shared>,
    late: Option<Late>,
}

/// Delay of the writes.
struct Late {
    adversary: Arc<Adversary>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Executes the writes as they arrive. Each is executed under the lock, which a read waits for.
    fn run(&self) {
        let mut queue = self.lock();
        while !queue.closed {
            let left = queue.writes.front().map(|write| {
                let now = Instant::now();
                write.arrival.saturating_duration_since(now)
            });
            queue = match left {
                None => self.changed.wait(queue).unwrap_or_else(|e| e.into_inner()),
                Some(Duration::ZERO) => {
                    if let Some(write) = queue.writes.pop_front() {
                        (self.apply)(write.region, write.offset, &write.data);
                    }
                    queue
                }
                Some(left) => {
                    let waited = self.changed.wait_timeout(queue, left);
                    waited.unwrap_or_else(|e| e.into_inner()).0
                }
            };
        }
    }
}

impl Posted {
    /// Executes writes by `apply`: region, offset and data; at once without an adversary.
    pub fn new(
        adversary: Option<&Arc<Adversary>>,
        apply: impl Fn(u32, u64, &[u8]) + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            apply: Box::new(apply),
        });
        let late = adversary.map(|adversary| {
            let shared = shared.clone();
            Late {
                adversary: adversary.clone(),
                thread: Some(std::thread::spawn(move || shared.run())),
            }
        });
        Self { shared, late }
    }

    /// Accepts a write of the host.
    pub fn write(&self, region: u32, offset: u64, data: &[u8]) {
        let Some(late) = &self.late else {
            return (self.shared.apply)(region, offset, data);
        };
        let arrival = Instant::now() + late.adversary.transit_time();
        let mut queue = self.shared.lock();
        queue.writes.push_back(Write {
            region,
            offset,
            data: data.to_vec(),
            arrival,
        });
        if queue.writes.len() == 1 {
            self.shared.changed.notify_one();
        }
    }

    /// Executes all writes, before a read of the host.
    pub fn flush(&self) {
        if self.late.is_none() {
            return;
        }
        let mut queue = self.shared.lock();
        while let Some(write) = queue.writes.pop_front() {
            (self.shared.apply)(write.region, write.offset, &write.data);
        }
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.late.as_mut().and_then(|late| late.thread.take()) {
            // It ends with a panic only if a block of the GPU panicked, which was reported.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(adversary: Option<Arc<Adversary>>) -> (Posted, Arc<Mutex<Vec<u64>>>) {
        let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
        let log = seen.clone();
        let posted = Posted::new(adversary.as_ref(), move |_, offset, _: &[u8]| {
            log.lock().unwrap().push(offset);
        });
        (posted, seen)
    }

    #[test]
    fn writes_are_executed_at_once_without_an_adversary() {
        let (posted, seen) = recorder(None);
        posted.write(0, 1, &[0]);
        assert_eq!(*seen.lock().unwrap(), [1]);
    }

    #[test]
    fn a_read_finds_all_writes_done() {
        let (posted, seen) = recorder(Some(Arc::new(Adversary::new(1))));
        for n in 0..1000 {
            posted.write(0, n, &[0]);
        }
        posted.flush();
        assert_eq!(*seen.lock().unwrap(), (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn writes_arrive_late_and_in_order() {
        let (posted, seen) = recorder(Some(Arc::new(Adversary::new(1))));
        let mut late = false;
        for n in 0..1000 {
            posted.write(0, n, &[0]);
            late |= seen.lock().unwrap().len() <= n as usize;
        }
        assert!(late);
        let end = Instant::now() + Duration::from_secs(10);
        while seen.lock().unwrap().len() < 1000 && Instant::now() < end {
            std::thread::yield_now();
        }
        assert_eq!(*seen.lock().unwrap(), (0..1000).collect::<Vec<_>>());
    }
}
