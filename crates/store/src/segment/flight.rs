//! Blocks that were read: one read at a time for each, and a few of them kept.
//!
//! The volume keeps pages itself, so what is kept here serves the pages of a block that are asked
//! for one by one.

use super::stored::Stored;
use crate::error::Result;
use bytes::Bytes;
use hearth_sync::primitive::{Arc, Condvar, Mutex};
use std::collections::{HashMap, VecDeque};

/// A block that was read, verified and unpacked.
#[derive(Clone, Debug)]
pub struct Opened<T> {
    /// What its header says.
    pub header: T,
    /// Its unpacked bytes.
    pub plain: Bytes,
}

/// Reads under way, and blocks that are kept, oldest out first.
#[derive(Debug)]
pub struct Flights<T> {
    state: Mutex<Board<T>>,
    /// Bytes to keep.
    room: usize,
}

/// Protected by [`Flights::state`].
#[derive(Debug)]
struct Board<T> {
    under_way: HashMap<Stored, Arc<Flight<T>>>,
    kept: HashMap<Stored, Opened<T>>,
    order: VecDeque<Stored>,
    bytes: usize,
}

#[derive(Debug)]
struct Flight<T> {
    landed: Mutex<Option<Landed<T>>>,
    done: Condvar,
}

/// What a read gave; `None` where its thread is gone without a result.
type Landed<T> = Option<Result<Opened<T>>>;

impl<T: Clone> Flights<T> {
    /// Keeps at most `room` bytes of blocks.
    pub fn new(room: usize) -> Flights<T> {
        Flights {
            state: Mutex::new(Board {
                under_way: HashMap::new(),
                kept: HashMap::new(),
                order: VecDeque::new(),
                bytes: 0,
            }),
            room,
        }
    }

    /// The block, whose `within` is 0: kept, from the read that is under way, or from `fetch`,
    /// which runs once for all that ask meanwhile. Errors are not kept.
    pub fn get(
        &self,
        block: Stored,
        fetch: impl FnOnce() -> Result<Opened<T>>,
    ) -> Result<Opened<T>> {
        let mut state = self.state.lock();
        if let Some(read) = state.kept.get(&block) {
            return Ok(read.clone());
        }
        if let Some(flight) = state.under_way.get(&block).cloned() {
            drop(state);
            if let Some(result) = flight.wait() {
                return result;
            }
            // The thread that read it is gone without a result.
            return fetch();
        }
        let flight = Arc::new(Flight {
            landed: Mutex::new(None),
            done: Condvar::new(),
        });
        state.under_way.insert(block, Arc::clone(&flight));
        drop(state);
        let mut landing = Landing {
            flights: self,
            block,
            flight,
            result: None,
        };
        let result = fetch();
        landing.result = Some(result.clone());
        result
    }

    fn land(&self, block: Stored, result: Option<&Result<Opened<T>>>) {
        let mut evicted = Vec::new();
        let mut state = self.state.lock();
        state.under_way.remove(&block);
        if let Some(Ok(read)) = result
            && read.plain.len() <= self.room
            && state.kept.insert(block, read.clone()).is_none()
        {
            state.bytes += read.plain.len();
            state.order.push_back(block);
            while state.bytes > self.room
                && let Some(oldest) = state.order.pop_front()
                && let Some(read) = state.kept.remove(&oldest)
            {
                state.bytes -= read.plain.len();
                evicted.push(read);
            }
        }
        drop(state);
        drop(evicted);
    }
}

impl<T: Clone> Flight<T> {
    fn wait(&self) -> Landed<T> {
        let mut landed = self.landed.lock();
        loop {
            match &*landed {
                Some(result) => return result.clone(),
                None => self.done.wait(&mut landed),
            }
        }
    }
}

/// Ends a flight, also where the thread unwinds.
struct Landing<'a, T: Clone> {
    flights: &'a Flights<T>,
    block: Stored,
    flight: Arc<Flight<T>>,
    result: Landed<T>,
}

impl<T: Clone> Drop for Landing<'_, T> {
    fn drop(&mut self) {
        self.flights.land(self.block, self.result.as_ref());
        *self.flight.landed.lock() = Some(self.result.take());
        self.flight.done.notify_all();
    }
}
