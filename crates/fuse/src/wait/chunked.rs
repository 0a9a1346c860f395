//! A request that takes long, done in pieces: each is a step of its task, so the scheduler says who
//! goes on after it, and its tenant is charged for it.

use crate::wait::delay::{Delay, bring, delay};
use crate::wait::enospc_retry::Attempts;
use crate::wait::service::{BlockingClass, InlineReply, Offload, Piece, Pieces, Service, Try};
use crate::wait::session_shared::SessionShared;
use crate::wait::waiting::RequestId;
use hearth::Errno;
use hearth::sched::yield_now;
use hearth_sync::primitive::{Arc, thread};

/// Does all pieces, and says what the answer is.
pub(crate) async fn run<S: Service>(
    hall: &SessionShared<S>,
    asker: RequestId,
    mut work: Pieces,
) -> Result<InlineReply, Errno> {
    let (mut attempts, mut how, mut delays) = (Attempts::default(), Try::Again, true);
    loop {
        match (work.next)(how) {
            Piece::Last(result) => return result,
            Piece::Absent(absent) => {
                if let Err(errno) = bring(hall, absent).await {
                    how = Try::Without(errno);
                }
            }
            Piece::Refused => {
                hall.sched.sleep(attempts.pause()).await;
                // Looked at before: what has come back by then is there for this attempt.
                let again = !attempts.is_last() && hall.service.awaits_returns();
                how = if again { Try::Again } else { Try::Last };
            }
            Piece::More(bytes) => {
                (attempts, how) = (Attempts::default(), Try::Again);
                if hall.waiting.is_closed() {
                    return Err(Errno::ENODEV);
                }
                let charged = bytes > 0 && hall.sched.has_ceilings();
                let ticket = match charged {
                    true => hall.sched.charge(hall.tenant(), 0, bytes),
                    false => None,
                };
                match ticket {
                    // Who was interrupted is to end soon; what it is charged others wait for.
                    Some(ticket) if delays => {
                        match delay(hall, asker, [Some(ticket), None]).await {
                            Delay::Waited => {}
                            Delay::Interrupted => delays = false,
                            Delay::Ended => return Err(Errno::ENODEV),
                        }
                    }
                    _ => yield_now().await,
                }
            }
        }
    }
}

/// The same on a thread that may wait, for who has no task: nobody else waits for that thread.
pub(crate) fn alone<S: Service>(service: &Arc<S>, mut work: Pieces) -> Offload {
    let service = Arc::clone(service);
    let work = move || {
        let (mut attempts, mut how) = (Attempts::default(), Try::Again);
        loop {
            match (work.next)(how) {
                Piece::Last(result) => return result,
                Piece::Absent(absent) => {
                    if let Err(errno) = service.bring(&absent) {
                        how = Try::Without(errno);
                    }
                }
                Piece::Refused => {
                    thread::sleep(attempts.pause());
                    // As above.
                    let again = !attempts.is_last() && service.awaits_returns();
                    how = if again { Try::Again } else { Try::Last };
                }
                Piece::More(_) => (attempts, how) = (Attempts::default(), Try::Again),
            }
        }
    };
    Offload {
        lane: BlockingClass::Whole,
        work: Box::new(work),
    }
}
