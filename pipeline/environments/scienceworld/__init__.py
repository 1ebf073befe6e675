"""ScienceWorld: thirty tasks of elementary science in a simulated house, played through its simulator."""
