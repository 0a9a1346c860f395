//! What is said, and whether all of it has arrived.

/// Users of a room.
pub const USERS: usize = 20;
/// Bytes of a message.
pub const LENGTH: usize = 100;

pub type Message = [u8; LENGTH];

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub rooms: usize,
    /// Messages that each user sends.
    pub messages: usize,
}

impl Size {
    /// Messages that arrive, everywhere.
    pub fn delivered(self) -> usize {
        self.rooms * USERS * self.heard()
    }

    /// Messages that one user hears.
    pub fn heard(self) -> usize {
        (USERS - 1) * self.messages
    }
}

/// Message number `number` of a user.
pub fn message(user: usize, number: usize) -> Message {
    let mut message = [b'.'; LENGTH];
    message[0] = user as u8;
    message[1..9].copy_from_slice(&(number as u64).to_le_bytes());
    message
}

/// What one user has heard: everything of every other, in order.
#[derive(Debug)]
pub struct Ear {
    user: usize,
    next: [u64; USERS],
}

impl Ear {
    /// A user that has heard nothing.
    pub fn new(user: usize) -> Ear {
        Ear {
            user,
            next: [0; USERS],
        }
    }

    pub fn hear(&mut self, message: &Message) -> Result<(), String> {
        let sender = usize::from(message[0]);
        let mut number = [0; 8];
        number.copy_from_slice(&message[1..9]);
        let number = u64::from_le_bytes(number);
        match self.next.get_mut(sender) {
            Some(next) if *next == number && sender != self.user => {
                *next += 1;
                Ok(())
            }
            _ => Err(format!(
                "user {} heard number {number} of user {sender} out of order",
                self.user
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_lost_doubled_or_ones_own_is_noticed() {
        let mut ear = Ear::new(3);
        assert_eq!(ear.hear(&message(1, 0)), Ok(()));
        assert_eq!(ear.hear(&message(2, 0)), Ok(()));
        assert_eq!(ear.hear(&message(1, 1)), Ok(()));
        assert!(ear.hear(&message(1, 1)).is_err());
        assert!(ear.hear(&message(2, 2)).is_err());
        assert!(ear.hear(&message(3, 0)).is_err());
        assert!(ear.hear(&message(99, 0)).is_err());
    }
}
