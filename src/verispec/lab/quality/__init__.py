"""Beyond one rate: are the answers as good, where is a lane slow, where does its time go, what does company cost?"""
