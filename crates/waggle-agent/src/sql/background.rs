//! A thread that answers when asked, and never twice for one question.
//!
//! Neighbours: [`super::Session`] does the work in it. Invariants: at most one answer is in flight
//! and one in store, so that memory is bounded; dropping the handle lets the thread end with the
//! statement it is at.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::budget::rights::{self, Task};

/// Work on a thread of its own, asked for without waiting.
pub(crate) struct Background<T> {
    ask: SyncSender<()>,
    answers: Receiver<T>,
    is_asked: bool,
}

impl<T: Send + 'static> Background<T> {
    /// Starts the thread `name`, with the rights that `task` needs; it rests until it is asked.
    pub(crate) fn start(
        name: &str,
        task: Task,
        mut work: impl FnMut() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let (ask, asked) = sync_channel::<()>(1);
        let (give, answers) = sync_channel(1);
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // Refused where there are none to give up.
                let _ = rights::keep(task, false);
                while asked.recv().is_ok() {
                    if give.send(work()).is_err() {
                        break;
                    }
                }
            })?;
        Ok(Self {
            ask,
            answers,
            is_asked: false,
        })
    }

    /// Asks, unless the last question is not answered yet. Never waits. False when the thread is
    /// gone, which only a panic in it can bring about.
    pub(crate) fn ask(&mut self) -> bool {
        if self.is_asked {
            return true;
        }
        match self.ask.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => {
                self.is_asked = true;
                true
            }
            Err(TrySendError::Disconnected(())) => false,
        }
    }

    /// The answer, once, if it has come. Never waits.
    pub(crate) fn answer(&mut self) -> Option<T> {
        match self.answers.try_recv() {
            Ok(answer) => {
                self.is_asked = false;
                Some(answer)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// Every answer that is still to come, oldest first: to the question that is out, if one is,
    /// and to one asked after it. The second is false if the last did not come within `patience`.
    /// At the end of a watch only: it waits.
    pub(crate) fn last_answers(&mut self, patience: Duration) -> (Vec<T>, bool) {
        let deadline = Instant::now() + patience;
        let mut answers = Vec::new();
        // Each is what came since the one before it: none may be left out.
        for is_last in [false, true] {
            if is_last && !self.ask() {
                return (answers, false);
            }
            if !self.is_asked {
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(answer) = self.answers.recv_timeout(left) else {
                return (answers, false);
            };
            self.is_asked = false;
            answers.push(answer);
        }
        (answers, true)
    }

    /// A question is out that has no answer yet.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn wait_for<T: Send + 'static>(background: &mut Background<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(answer) = background.answer() {
                return answer;
            }
            assert!(Instant::now() < deadline, "no answer came");
            thread::yield_now();
        }
    }

    #[test]
    fn one_answer_for_each_question() {
        let mut count = 0;
        let mut background = Background::start("test", Task::Deliver, move || {
            count += 1;
            count
        })
        .unwrap();
        assert_eq!(background.answer(), None);
        assert!(background.ask() && background.ask());
        assert_eq!(wait_for(&mut background), 1);
        assert_eq!(background.answer(), None);
        assert!(!background.is_asked() && background.ask());
        assert_eq!(wait_for(&mut background), 2);
    }

    #[test]
    fn the_last_answers_are_all_that_are_to_come() {
        const PATIENCE: Duration = Duration::from_secs(20);
        let mut count = 0;
        let mut background = Background::start("test", Task::Deliver, move || {
            count += 1;
            count
        })
        .unwrap();
        assert_eq!(background.last_answers(PATIENCE), (vec![1], true));
        assert!(background.ask());
        assert_eq!(background.last_answers(PATIENCE), (vec![2, 3], true));
        assert!(!background.is_asked());
    }

    #[test]
    fn an_answer_that_does_not_come_is_told() {
        let (release, held) = sync_channel::<()>(1);
        let mut background =
            Background::start("test", Task::Deliver, move || held.recv().is_ok()).unwrap();
        assert_eq!(background.last_answers(Duration::ZERO), (vec![], false));
        assert!(background.is_asked());
        release.send(()).unwrap();
        assert!(wait_for(&mut background));
    }
}
