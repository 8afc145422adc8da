//! Runs several rows of the census in parallel.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Processes items in several threads, and passes the results to `take` in the order of the items.
pub(crate) fn in_order<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> io::Result<R> + Sync,
    mut take: impl FnMut(&T, R),
) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let (sender, done) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some(index) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < items.len())
                {
                    // Sending fails after the receiver has stopped at an error.
                    if sender.send((index, work(&items[index]))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut waited_for = 0;
        for (index, result) in done {
            early.insert(index, result?);
            while let Some(result) = early.remove(&waited_for) {
                take(&items[waited_for], result);
                waited_for += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_are_taken_in_order() {
        let mut taken = Vec::new();
        let slow_first = |number: &u64| {
            thread::sleep(Duration::from_millis(20 - 5 * number));
            Ok(number * 10)
        };
        in_order(&[0, 1, 2, 3], 4, slow_first, |number, result| taken.push((*number, result))).unwrap();
        assert_eq!(taken, [(0, 0), (1, 10), (2, 20), (3, 30)]);
    }

    #[test]
    fn an_error_stops_the_work() {
        let mut taken = 0;
        let error = in_order(
            &[0, 1, 2],
            1,
            |number| if *number == 1 { Err(io::Error::other("broken")) } else { Ok(()) },
            |_, ()| taken += 1,
        );
        assert_eq!((error.unwrap_err().to_string(), taken), ("broken".into(), 1));
    }
}
