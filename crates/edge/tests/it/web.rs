//! The built-in chat, from the page's side and from the agent's.

mod actors;
mod admission;
mod conversation;
mod invitation;
mod watching;
