// SPDX-License-Identifier: GPL-2.0

//! Writes to the memory of a process that is not the caller's.
//!
//! A worker writes as the process itself would: access to user memory may block, for instance on
//! userfaultfd. The caller waits until a signal. A process has one such worker at most, so that
//! interrupted calls do not use up the work queue, which some processes share.

use kernel::{
    impl_has_work, new_condvar, new_mutex, new_work,
    prelude::*,
    sync::{Arc, CondVar, Mutex},
    workqueue::{Work, WorkItem},
};

use super::kfd_process::Process;
use crate::{kapi::uaccess::user_slice, queue::SavedWords};

#[pin_data]
struct Job {
    process: Arc<Process>,
    /// Of one queue each.
    groups: KVec<KVec<SavedWords>>,
    #[pin]
    result: Mutex<Option<Result>>,
    #[pin]
    done: CondVar,
    #[pin]
    work: Work<Job>,
}

impl_has_work! {
    impl HasWork<Self> for Job { self.work }
}

fn write(words: &SavedWords) -> Result {
    let bytes = core::mem::size_of_val(&*words.words);
    let mut writer = user_slice(words.at, bytes).writer();
    words.words.iter().try_for_each(|word| writer.write(word))
}

impl WorkItem for Job {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let result = this.process.with_memory(|| {
            for words in &this.groups {
                if let Err(e) = words.iter().try_for_each(write) {
                    pr_debug!("process {}: save area: {e:?}\n", this.process.pid());
                }
            }
        });
        *this.result.lock() = Some(result);
        this.done.notify_all();
        *this.process.writing().lock() = false;
        this.process.written().notify_all();
    }
}

impl Process {
    /// Writes to the memory of the process. Where it cannot be written, the rest of that group is
    /// omitted (`copy_context_work_handler`). `ERESTARTSYS` after a signal, when it may still be
    /// written; `ESRCH` if the address space was released, `ENOMEM` without memory.
    pub(crate) fn write(self: &Arc<Self>, groups: KVec<KVec<SavedWords>>) -> Result {
        if groups.is_empty() {
            return Ok(());
        }
        let job = Arc::pin_init(
            pin_init!(Job {
                process: self.clone(),
                groups,
                result <- new_mutex!(None),
                done <- new_condvar!("rkfd_write"),
                work <- new_work!("rkfd_write"),
            }),
            GFP_KERNEL,
        )?;
        let mut writing = self.writing().lock();
        while *writing {
            if self.written().wait_interruptible(&mut writing) {
                return Err(ERESTARTSYS);
            }
        }
        *writing = true;
        drop(writing);
        self.place().enqueue::<_, 0>(job.clone());
        let mut result = job.result.lock();
        loop {
            if let Some(result) = *result {
                return result;
            }
            if job.done.wait_interruptible(&mut result) {
                return Err(ERESTARTSYS);
            }
        }
    }
}
