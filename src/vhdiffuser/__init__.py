"""VH-Diffuser: trajectory planning with a diffusion model whose horizon is learned.

Importing it makes `gymnasium.make("vhdiffuser/Maze2d-large-v1")` work; the simulators, torch and the
rest are imported where they are used.
"""

from vhdiffuser.envs.gym_registration import register

register()
