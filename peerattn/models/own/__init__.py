"""What a firm's own characteristics and past outcomes say, and what is common to its period."""
