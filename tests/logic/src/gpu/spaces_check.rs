// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Checks the list of address spaces in every order of a reset of the card and other threads.

use kernel::{
    init::build,
    model,
    prelude::*,
    sync::{Arc, Mutex},
};

use super::spaces::{PageTables, SpaceList};

/// The number of resets of a card, each of which loses its VRAM.
type Resets = Arc<Mutex<u32>>;

/// An address space, and the reset after which its page tables were written.
struct Tables {
    resets: Resets,
    written: Mutex<u32>,
}

impl Tables {
    fn new(resets: &Resets) -> Arc<Self> {
        let written = *resets.lock();
        Arc::new(Self {
            resets: resets.clone(),
            written: Mutex::of(written),
        })
    }

    fn check(&self) {
        assert_eq!(
            *self.written.lock(),
            *self.resets.lock(),
            "page tables are lost"
        );
    }
}

impl PageTables for Tables {
    fn rewrite(&self) -> Result {
        let resets = *self.resets.lock();
        *self.written.lock() = resets;
        Ok(())
    }

    fn zap_again(&self) -> Result {
        Ok(())
    }
}

fn list() -> Arc<SpaceList> {
    Arc::new(build(SpaceList::new()).unwrap_or_else(|never| match never {}))
}

/// Starts a reset of the card.
fn reset(list: &Arc<SpaceList>, resets: &Resets) -> model::thread::JoinHandle<()> {
    let (list, resets) = (list.clone(), resets.clone());
    model::thread::spawn(move || {
        *resets.lock() += 1;
        list.rewrite_all().expect("memory");
    })
}

/// An address space that is closed does not hide another one.
#[test]
fn a_reset_rewrites_all_while_one_closes() {
    model::explore(|| {
        let (list, resets) = (list(), Resets::new(Mutex::of(0)));
        let all = [(); 3].map(|()| Tables::new(&resets));
        for tables in &all {
            list.add(tables.clone(), list.rewrites()).expect("memory");
        }
        let reset = reset(&list, &resets);
        let closed: Arc<dyn PageTables> = all[0].clone();
        list.remove(&closed);
        reset.join().expect("the reset");
        all[1].check();
        all[2].check();
    });
}

/// An address space that is made during a reset, as by `rust/mmu/space.rs`, does not miss it.
#[test]
fn a_reset_rewrites_one_that_opens() {
    model::explore(|| {
        let (list, resets) = (list(), Resets::new(Mutex::of(0)));
        let old = Tables::new(&resets);
        list.add(old.clone(), list.rewrites()).expect("memory");
        let reset = reset(&list, &resets);
        let rewrites = list.rewrites();
        let new = Tables::new(&resets);
        list.add(new.clone(), rewrites).expect("memory");
        reset.join().expect("the reset");
        old.check();
        new.check();
    });
}

/// Two that close at a time remove themselves and nothing else.
#[test]
fn two_close_at_a_time() {
    model::explore(|| {
        let (list, resets) = (list(), Resets::new(Mutex::of(0)));
        let all = [(); 3].map(|()| Tables::new(&resets));
        for tables in &all {
            list.add(tables.clone(), list.rewrites()).expect("memory");
        }
        let other = {
            let (list, tables) = (list.clone(), all[0].clone());
            model::thread::spawn(move || {
                let tables: Arc<dyn PageTables> = tables;
                list.remove(&tables);
            })
        };
        let closed: Arc<dyn PageTables> = all[1].clone();
        list.remove(&closed);
        drop(closed);
        other.join().expect("the other");
        *resets.lock() += 1;
        list.rewrite_all().expect("memory");
        all[2].check();
        let count = |tables: &Arc<Tables>| Arc::strong_count(tables);
        assert_eq!(all.each_ref().map(count), [1, 1, 2], "references");
    });
}
