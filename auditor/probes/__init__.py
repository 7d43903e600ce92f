"""Server side: what is measured, one file per probe, and the engine that runs them.

Imports only `auditor.records`, the standard library, torch and pynvml; runs under Python >= 3.8.
A module of this folder with a `KEY` is a probe; nothing is registered anywhere.
"""
