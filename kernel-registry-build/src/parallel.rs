//! Runs tasks in as many threads as cargo allows.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use jobserver::{Acquired, Client};

use crate::environment::Environment;

/// Calls `work` for each task, in any order, and returns the results in the order of the tasks.
pub(crate) fn each<T: Sync, R: Send>(
    environment: &Environment,
    tasks: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = Mutex::new(tasks.iter().enumerate());
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    let done = Mutex::new(Vec::with_capacity(tasks.len()));
    let worker = || {
        while let Some((number, task)) = take() {
            let result = work(task);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
        }
    };
    let more = workers(environment).min(tasks.len()).saturating_sub(1);
    match jobserver(more) {
        Some(client) => with_tokens(client, more, &worker),
        None => thread::scope(|scope| {
            (0..more).for_each(|_| drop(scope.spawn(worker)));
            worker();
        }),
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Works on this thread, with the token that every build script has, and on one more thread for each token
/// that cargo grants.
fn with_tokens(client: Client, more: usize, worker: &(impl Fn() + Sync)) {
    let (give, tokens) = mpsc::channel::<Acquired>();
    // If the jobserver fails, only this thread works.
    let helper = client.into_helper_thread(move |token| drop(token.map(|token| give.send(token))));
    thread::scope(|scope| {
        scope.spawn(move || {
            for token in tokens {
                scope.spawn(move || {
                    worker();
                    drop(token);
                });
            }
        });
        if let Ok(helper) = &helper {
            (0..more).for_each(|_| helper.request_token());
        }
        worker();
        // Stops requesting tokens, which also ends the thread above.
        drop(helper);
    });
}

/// Returns the largest number of threads: cargo's `-j`, or the number of cores.
fn workers(environment: &Environment) -> usize {
    let jobs = environment.get("NUM_JOBS").and_then(|jobs| jobs.to_str()?.parse().ok());
    jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get)
}

fn jobserver(more: usize) -> Option<Client> {
    if more == 0 {
        return None;
    }
    // SAFETY: the file descriptors that the variables name are cargo's, which leaves them open for its build
    // scripts; nothing in this crate closes or opens descriptors by number.
    unsafe { Client::from_env() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_have_the_order_of_tasks() {
        let tasks: Vec<u64> = (0..100).collect();
        let results = each(&Environment::default(), &tasks, |&task| task * 2);
        assert_eq!(results, tasks.iter().map(|task| task * 2).collect::<Vec<_>>());
        assert!(each(&Environment::default(), &[] as &[u64], |&task| task).is_empty());
    }

    #[test]
    fn each_further_thread_needs_a_token() {
        for tokens in [0, 2] {
            let client = Client::new(tokens).unwrap();
            let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let next = AtomicUsize::new(0);
            with_tokens(client.clone(), 7, &|| {
                while next.fetch_add(1, Ordering::Relaxed) < 30 {
                    let running = now.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(running, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(3));
                    now.fetch_sub(1, Ordering::SeqCst);
                }
            });
            assert_eq!(most.into_inner(), tokens + 1);
            // All tokens were given back.
            assert_eq!(client.available().unwrap(), tokens);
        }
    }
}
