"""Processes that share a card. A process runs an iteration in its turn; a broker grants turns.

process A   ( iteration )─give──▶ broker ──turn─▶ ...        pages of A's arena are released
process B   ......ask..............▶ └──turn──▶ ( iteration )   and pages of B's are created

`schedule` makes the decisions, without clocks, sockets or processes. `broker` serves schedules on a
Unix socket. Programs use `client`. In the picture, the processes do not fit on the card at once.
"""
