//! Rate limits with sliding windows.

use std::collections::{HashMap, VecDeque};

use super::settings::TelegramLimits;

/// Times of one bot's recent writes, in total and per chat.
#[derive(Default)]
pub(super) struct Windows {
    bot: VecDeque<i64>,
    chats: HashMap<i64, ChatRate>,
}

#[derive(Default)]
struct ChatRate {
    second: VecDeque<i64>,
    minute: VecDeque<i64>,
}

impl Windows {
    /// Counts one write, or returns the seconds to wait. A refused write is not counted.
    pub fn admit(&mut self, limits: &TelegramLimits, chat: i64, now_ms: i64) -> Result<(), u64> {
        let here = self.chats.entry(chat).or_default();
        let is_group = chat < 0;
        let mut wait_ms = wait(&mut self.bot, limits.per_bot_per_second, 1_000, now_ms);
        wait_ms = wait_ms.max(wait(&mut here.second, limits.per_chat_per_second, 1_000, now_ms));
        if is_group {
            wait_ms = wait_ms.max(wait(&mut here.minute, limits.per_group_per_minute, 60_000, now_ms));
        }
        if wait_ms > 0 {
            return Err(u64::try_from(wait_ms).unwrap_or(0).div_ceil(1000));
        }
        self.bot.push_back(now_ms);
        here.second.push_back(now_ms);
        if is_group {
            here.minute.push_back(now_ms);
        }
        Ok(())
    }
}

fn wait(seen: &mut VecDeque<i64>, most: u32, window_ms: i64, now_ms: i64) -> i64 {
    while seen.front().is_some_and(|first| now_ms - first >= window_ms) {
        seen.pop_front();
    }
    match seen.front() {
        Some(first) if seen.len() >= most as usize => first + window_ms - now_ms,
        None if most == 0 => window_ms,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_a_group_and_a_bot_each_have_their_own_pace() {
        let limits =
            TelegramLimits { per_bot_per_second: 3, per_chat_per_second: 2, per_group_per_minute: 2 };
        let mut windows = Windows::default();
        assert_eq!(windows.admit(&limits, 1, 0), Ok(()));
        assert_eq!(windows.admit(&limits, 1, 10), Ok(()));
        assert_eq!(windows.admit(&limits, 1, 20), Err(1), "two a second in one chat");
        assert_eq!(windows.admit(&limits, -5, 20), Ok(()));
        assert_eq!(windows.admit(&limits, 2, 30), Err(1), "three a second for the bot");
        assert_eq!(windows.admit(&limits, -5, 2_000), Ok(()));
        assert_eq!(windows.admit(&limits, -5, 4_000), Err(57), "two a minute in a group");
        assert_eq!(windows.admit(&limits, -5, 60_021), Ok(()));
    }
}
