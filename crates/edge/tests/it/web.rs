//! The built-in web chat, from the side of the page and of the agent.

mod actors;
mod admission;
mod conversation;
mod files;
mod interactions;
mod invitation;
mod watching;
