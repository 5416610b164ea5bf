"""Processes that share a card: an iteration is a turn, and a broker grants the turns.

process A   ( iteration )─give──▶ broker ──turn─▶ ...        its arena's pages are released
process B   ......ask..............▶ └──turn──▶ ( iteration )   and are created for this one

`schedule` decides, without time, sockets or processes; `broker` serves it on a Unix socket;
`client` is used by programs. The package uses only the standard library.
"""
