//! What a client's packets ask for: the login, and commands.
//!
//! The session gives it whole packets. Invariant: a text is copied once, up to the limit; proofs of
//! passwords are stepped over.

use waggle_wire::onlooker;

use super::answer::State;
use super::command::{Code, Command, Sql};
use super::framer::Packet;
use super::session::{Confused, PENDING_MAX, Phase, Session, Shared};
use super::tls::Turns;

impl Session {
    pub(super) fn client_packet(
        &mut self,
        packet: &Packet<'_>,
        time_ns: u64,
        shared: &mut Shared,
    ) -> Result<(), Confused> {
        match self.phase {
            Phase::Login => self.login(packet),
            Phase::Commands => match self.answer.state {
                State::File => {
                    self.answer.expected = Some(packet.sequences.1.wrapping_add(1));
                    if packet.length == 0 {
                        self.answer.state = State::First;
                    }
                    Ok(())
                }
                State::Proof => {
                    self.answer.expected = Some(packet.sequences.1.wrapping_add(1));
                    Ok(())
                }
                _ if packet.sequences.0 != 0 => Err(Confused),
                _ => self.command(packet, time_ns, shared),
            },
            _ => Ok(()),
        }
    }

    fn login(&mut self, packet: &Packet<'_>) -> Result<(), Confused> {
        let login = onlooker::login(packet.head).map_err(|_| Confused)?;
        if login.is_tls_request {
            self.phase = Phase::Tls(Turns::from_start());
            return Ok(());
        }
        self.capabilities &= login.capabilities;
        self.is_agreed = true;
        self.deprecates_eof = Some(self.agreed(onlooker::DEPRECATE_EOF));
        self.claimed = Some((login.user.to_vec(), login.database.to_vec()));
        self.phase = Phase::Proof;
        Ok(())
    }

    /// A client's command is complete.
    fn command(
        &mut self,
        packet: &Packet<'_>,
        time_ns: u64,
        shared: &mut Shared,
    ) -> Result<(), Confused> {
        let code = Code(packet.first());
        let body = packet.head.get(1..).ok_or(Confused)?;
        self.bytes_since += packet.wire_bytes();
        match code {
            Code::QUIT | Code::SEND_LONG_DATA => return Ok(()),
            Code::CLOSE => {
                if let Some(id) = body.first_chunk() {
                    self.prepared.remove(&u32::from_le_bytes(*id));
                }
                return Ok(());
            }
            Code::BINLOG_DUMP | Code::BINLOG_DUMP_GTID | Code::TABLE_DUMP | Code::CLONE => {
                self.phase = Phase::Ignored;
                return Ok(());
            }
            _ => {}
        }
        if self.pending.len() >= PENDING_MAX {
            return Err(Confused);
        }
        self.pipelines |= !self.pending.is_empty();
        let mut command = Command {
            code,
            sql: Sql::None,
            begin_ns: time_ns,
            bytes: packet.wire_bytes(),
            due: packet.sequences.1.wrapping_add(1),
            is_clock_doubtful: shared.is_clock_doubtful,
        };
        self.read_body(&mut command, packet, body, shared)?;
        if code.is_statement() {
            let bytes = std::mem::take(&mut self.bytes_since);
            self.sizes.asked(bytes);
        }
        if self.pending.is_empty() {
            self.answer.begin(&command);
        }
        self.pending.push_back(command);
        Ok(())
    }

    fn read_body(
        &mut self,
        command: &mut Command,
        packet: &Packet<'_>,
        body: &[u8],
        shared: &mut Shared,
    ) -> Result<(), Confused> {
        match command.code {
            Code::QUERY => {
                command.sql = match self.text_at(body) {
                    Some(at) => self.own(&body[at..], packet.is_cut(), shared),
                    None => Sql::Unknown,
                };
            }
            Code::PREPARE | Code::INIT_DB => {
                command.sql = self.own(body, packet.is_cut(), shared);
            }
            Code::EXECUTE | Code::BULK_EXECUTE | Code::FETCH => {
                let id = u32::from_le_bytes(*body.first_chunk().ok_or(Confused)?);
                command.sql = match self.prepared.get(&id) {
                    Some(text) => Sql::Prepared(text.clone()),
                    // MariaDB: the one prepared just before, maybe not answered yet.
                    None if id == u32::MAX => Sql::LastPrepared,
                    None => Sql::Unknown,
                };
            }
            Code::CHANGE_USER => {
                let (user, database) = onlooker::change_user(body).map_err(|_| Confused)?;
                self.claimed = Some((user.to_vec(), database.to_vec()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Where the text begins in a query's body.
    fn text_at(&self, body: &[u8]) -> Option<usize> {
        // No statement begins with such a byte; where the login was not seen, it tells.
        let begins_so = body.first().is_some_and(|&first| first < b'\t');
        let has_attributes = match self.is_agreed {
            true => self.agreed(onlooker::QUERY_ATTRIBUTES),
            false => begins_so,
        };
        if !has_attributes {
            return Some(0);
        }
        onlooker::query_text_at(body).ok()
    }

    /// Copies a text, which has to outlive the packet until the answer has come.
    fn own(&mut self, text: &[u8], is_cut: bool, shared: &Shared) -> Sql {
        let kept = &text[..text.len().min(shared.text_bytes_max)];
        let mut own = std::mem::take(&mut self.spare);
        own.clear();
        own.extend_from_slice(kept);
        Sql::Own {
            text: own,
            truncated: is_cut || kept.len() < text.len(),
        }
    }
}
