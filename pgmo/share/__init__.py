"""Processes that share a card: an iteration is a turn, and a broker says whose it is.

process A   ( iteration )─give──▶ broker ──turn─▶ ...        its arena's pages go back to the card
process B   ......ask..............▶ └──turn──▶ ( iteration )   and are created for this one

`schedule` decides and knows no time, no socket and no process; `broker` serves it on a Unix socket;
`client` is the part of a program. Only the standard library.
"""
