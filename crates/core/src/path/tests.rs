mod simulation;
